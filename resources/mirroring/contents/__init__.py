"""What bytes are, how they may be served, and what small pictures are made of them. PURE."""
