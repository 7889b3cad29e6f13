"""The demo: real shapes, generated speeds."""
