"""Layers whose tiles are fetched from another server."""
