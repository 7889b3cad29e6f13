"""What servers say of times, in header fields. PURE."""
