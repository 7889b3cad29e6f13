"""The content of mirrored files: its type, and thumbnails.

Public: `thumbnails`; within `resources.mirror` also `sniff` (recognise_content), `pictures`, `thumbnail_process`, the
child process that paints.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""
