"""The frontier: queues by domain in `state`, their scripts, politeness. Sends no request.

Public: `queue` (count_fetchers, read_domain_records, configured_politeness, configured_egresses), `jobs` (BacklogFull,
JobEnqueued, JobJoined, JobPriority, ALIKE, FILL, PATIENCE), `explain` (parse_domain); within `resources.fetch` also
`politeness`.

The settings name `queue.count_jobs_before` for the lanes of fetched work.
"""
