"""Finds the tiles that a change of a layer's data touches. PURE. Loads and stores nothing."""
