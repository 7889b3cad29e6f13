"""Feeds over HTTP: singly, by category, and all together."""
