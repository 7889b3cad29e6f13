"""Subscriptions of feeds at hubs and clouds, their pushes, and the announcements to this site's own hub.

Public: `renewals` (scan_subscriptions), `own_hub` (announce_changes), `views` (websub_callback, rsscloud_callback).

The setting FETCH_TASKS names `fetch_task.TASK` and `own_hub.TASK`.
"""
