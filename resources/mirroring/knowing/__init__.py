"""What is known of URLs, files and hosts: rows, what Redis and processes remember of them, rules, figures."""
