"""When a feed is fetched next, and why then. PURE."""
