"""Lists of feeds that people bring and take along (OPML 1.0 and 2.0). PURE."""
