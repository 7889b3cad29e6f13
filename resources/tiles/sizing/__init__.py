"""How many tiles wide the blocks of a layer are, measured where it is densest. PURE."""
