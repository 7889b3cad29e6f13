"""Layers of points: read, clustered, and drawn as discs, dots or heat. PURE."""
