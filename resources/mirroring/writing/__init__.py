"""What becomes of URLs, written into their rows: wanted, refused, stored, failed."""
