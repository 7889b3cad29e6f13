"""Layers painted as tiles: compiling data, painting, serving. Holds no other kind of resource."""
