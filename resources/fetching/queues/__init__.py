"""The frontier: queues by domain in `state`, their scripts, politeness. Asks no server."""
