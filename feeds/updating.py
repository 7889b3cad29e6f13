"""What has changed in a feed, entry by entry. PURE."""
