"""What people ask the front for: its log, read into counts and popularity."""
