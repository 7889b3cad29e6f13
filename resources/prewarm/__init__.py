"""Pre-warming: prepares popular content, and whole areas of layers, before it is requested.

Public: `pieces` (Piece, WantedContent and take_slowest_lane, for other kinds of content by the setting PREWARM),
`tile_pieces`, `automatic_run`, `run_records`, `models`, `admin`; for the command also `area`, `hot_cache`, `plan`,
`progress`, `runner`.
"""
