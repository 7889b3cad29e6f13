"""What people copy into their own maps, filled in for one layer."""
