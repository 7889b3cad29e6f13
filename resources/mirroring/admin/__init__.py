"""The admin of mirrored files."""
