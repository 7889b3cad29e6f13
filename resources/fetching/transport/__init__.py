"""Requests go out, answers come in: the guarded client. Knows of no queue."""
