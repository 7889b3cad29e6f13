"""From arrays and a style to image files. PURE. Loads and stores nothing."""
