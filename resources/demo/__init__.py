"""The demo: real shapes, generated speeds.

Public: `load` (load_demo, load_demo_once, vary_speeds).
"""
