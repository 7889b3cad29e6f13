"""Layers whose tiles are fetched from another server.

Public: `templates`.

The setting FETCH_TASKS names `fetch_task.TASK`.
"""
