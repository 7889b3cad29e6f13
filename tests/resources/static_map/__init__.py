"""Static maps."""
