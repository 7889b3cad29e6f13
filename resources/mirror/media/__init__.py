"""The content of mirrored files: its type, and thumbnails. PURE.

Public: `thumbnails`; within `resources.mirror` also `sniff` (recognise_content), `pictures`, `thumbnail_process`, the
child process that paints.
"""
