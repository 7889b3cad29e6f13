"""Renders entries as Atom, RSS and JSON Feed.

Public: `atom`, `rss`, `jsonfeed` (each with its renderer and MEDIA_TYPE), `output_page` (OutputPage, FeedOrigin, the
head of a feed and the sources of its entries).

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""
