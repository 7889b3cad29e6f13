"""Serve cached content at once; prepare what is missing once, while the client waits elsewhere."""
