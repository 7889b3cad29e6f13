"""Slow content of the site: map layers painted as tiles."""
