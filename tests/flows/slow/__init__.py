"""Slow content for tests and benchmarks: as slow, as big and as broken as they ask for."""
