"""Pre-warming: prepares popular content, and whole areas of layers, before it is requested.

Public: `pieces` (Piece and WantedContent, for other kinds of content by the setting PREWARM), `plan`, `tile_pieces`;
for the command also `area`, `hot_cache`, `progress`, `runner`.
"""
