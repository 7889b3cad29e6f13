"""Styles: what may stand in them, colours, the classes of traffic. PURE. Draws nothing."""
