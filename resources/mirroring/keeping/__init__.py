"""What is known of mirrored files: rows, and where their bytes are."""
