"""From entries to the bytes of a feed: Atom, RSS, JSON Feed. PURE."""
