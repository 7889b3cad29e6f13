"""This site as the hub (WebSub) and the cloud (rssCloud) of its own output: FEEDS_HUB=self.

Public: `views` (hub, cloud), `distribution` (distribute_changes).

The setting FETCH_TASKS names `fetch_task.VERIFICATION` and `fetch_task.DELIVERY`.
"""
