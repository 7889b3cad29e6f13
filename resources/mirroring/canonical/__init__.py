"""Which URLs are one: the key that a mirrored file is known by. PURE."""
