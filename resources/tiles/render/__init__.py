"""Paints image files from arrays and a style. Loads and stores nothing.

Public: `painter` (for `staticmap`); within `resources.tiles` also `scene`, and for `diff`, which must know the size of
each mark, `canvas`, `clusters`, `heat`.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""
