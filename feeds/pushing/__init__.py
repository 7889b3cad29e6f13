"""Push, as decisions and values: what feeds offer, what is asked and answered, when that is renewed. PURE."""
