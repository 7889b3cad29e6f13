"""The API of feeds: reading them, and managing them with a token that may.

Public: nothing.

The setting API_ROUTERS names `manage.router`.
"""
