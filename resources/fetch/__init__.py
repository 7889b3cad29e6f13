"""Fetches URLs from other servers, politely: the frontier, the guarded HTTP client, the fetchers.

Public: `conf`, `dispatch` (publish; claim_and_enqueue for passes over rows), `host_settings` (headers, passwords and
limits of hosts), `models`, `timings`.

Fetch tasks of other packages implement the protocols in `task`. Each package has a list of its own.
"""
