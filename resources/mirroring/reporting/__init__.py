"""Lists of URLs that are reported: what becomes of each, and who is told at the end."""
