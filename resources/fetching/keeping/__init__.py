"""What is kept of fetching in the database: timings, admins' limits, headers for hosts."""
