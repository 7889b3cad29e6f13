"""Layers painted as tiles: their data and styles, painting, publication, staleness and serving.

Public: `layers`, `tile_address`, `grid`, `grid_arrays`, `window`, `work`, `publication`, `models`, `errors`, `conf`;
for the ways in (admin, forms, API, commands, URLs, tasks) also `compile_process`, `demand`, `layer_files`,
`layer_state`, `metatiles`, `pages`, `speed_updates`, `staleness`, `styles`, `views`.

Each package has a list of its own. A module marked as pure imports neither Django, Celery, Redis nor the network; the
time is an argument.
"""
