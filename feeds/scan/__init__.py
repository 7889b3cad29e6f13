"""Takes feeds from due to stored: chosen, ordered, handed over, fetched, read, stored.

Public: `scanner` (run_scan, prune_scans), `deliveries`, `push_trust`, `due` (for feed_plan),
`supplement_task` (hand_over_supplements).

The setting FETCH_TASKS names `fetch_task.TASK` and `supplement_task.TASK`.
"""
