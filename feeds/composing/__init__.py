"""Composes pages of feeds and of combinations, in all formats, from what is kept. Knows no HTTP."""
