"""Feeds: fetched from the web in the order of their expected durations, served singly and combined.

Public: nothing.

Django finds `apps`, `models`, `tasks` and `urls`; the settings name `scan.fetch_task.TASK`,
`subscriptions.fetch_task.TASK`, `subscriptions.own_hub.TASK`, `change_calls.TASK`, `api.manage.router`, and
functions of `views` and `followers`.
"""
