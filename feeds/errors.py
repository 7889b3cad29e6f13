"""The errors of feeds. PURE."""


class FeedError(Exception):
    """Base of all. Its text is a sentence for whoever is to do something about it."""


class ParseError(FeedError):
    """What came is no feed, or one beyond the limits."""


class OpmlError(FeedError):
    """What was given is no list of feeds, or one beyond the limits."""


class AddressError(FeedError):
    """What was given is no address of a feed."""


class MoveError(FeedError):
    """A feed cannot be at that address."""
