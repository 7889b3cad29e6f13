"""In which order feeds are fetched, and how long all of them take. PURE."""
