"""Mirrored files: fetched once by URL, stored once by content, served from here."""
