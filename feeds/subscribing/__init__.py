"""Keeps feeds subscribed where they offer it: rows, what is due, requests by the fetchers, what came of them."""
