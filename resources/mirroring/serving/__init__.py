"""Mirrored files over HTTP: by digest, and by signed URL."""
