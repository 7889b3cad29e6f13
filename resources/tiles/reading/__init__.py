"""From the files that people give to the arrays that painters load. PURE. Stores nothing."""
