"""The demo's feeds.

Public: `load` (load_demo_feeds, load_demo_feeds_once).
"""
