"""Errors of contents. PURE."""


class ImageError(Exception):
    """An image that is not read. Its text ends a sentence that begins with “The image”."""


class ThumbnailError(Exception):
    """An address that names no thumbnail. The message says what belongs there."""
