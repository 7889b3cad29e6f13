"""Turns uploaded files into the arrays that painters load. Stores nothing.

Public: `compiler` (compile_layer, compile_speeds, CompiledLayer, CompiledSpeeds, SpeedsFormat), `geojson` (LayerKind),
`limits` (LayerLimits); within `resources.tiles` also `arrays` and `speeds`.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""
