"""From the bytes of a feed to its entries, whatever its format and its mistakes. PURE."""
