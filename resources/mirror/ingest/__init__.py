"""Wanted URLs on their way to stored files: handed to the fetchers, deduplicated, fetched once, written.

Public: `wanted_urls` (want and refetch URLs, mirror_work), `feeder` (feed_fetchers), `url_outcome`
(describe_failure), in `resources.mirror` also `due_times` (is_past).

The setting FETCH_TASKS names `fetch_task.TASK`.
"""
