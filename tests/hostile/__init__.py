"""Other people's servers at their worst, and what the client makes of them."""
