"""The errors of upstream tiles. PURE."""


class ImageError(Exception):
    """What came is no tile. The message says what it is instead, to go on after “It sent”: short, without addresses."""
