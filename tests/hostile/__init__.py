"""Other servers at their worst, and the client's results."""
