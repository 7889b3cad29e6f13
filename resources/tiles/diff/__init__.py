"""Finds the tiles that a change of a layer's data touches. Loads and stores nothing.

Public: within `resources.tiles` alone: `changes` (tiles_changed_by_speeds, tiles_changed_by_data, LayerLook,
LayerData).

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""
