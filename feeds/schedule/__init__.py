"""The schedule of feeds: the next check of each, and the order in which due feeds are fetched.

Public: `next_check` (decide_next_check with its values), `state`, `order`, `simulation`.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""
