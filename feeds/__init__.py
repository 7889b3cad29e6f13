"""Feeds: gathered from the web in the order of how long they take, served singly and combined."""
