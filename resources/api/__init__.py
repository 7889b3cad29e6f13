"""The HTTP API of layers, speeds and mirrored files.

Public: nothing. Its URLs are in `resources.urls`; other apps add routers by the setting API_ROUTERS.
"""
