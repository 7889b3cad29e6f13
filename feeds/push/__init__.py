"""Push (WebSub, rssCloud) as decisions and values: offers of feeds, wire formats, leases, trust.

Public: `kinds`, `offers`, `websub`, `rsscloud`, `leases`, `trust`.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""
