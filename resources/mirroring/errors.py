"""Errors of mirrored files. PURE."""


class MirrorError(Exception):
    """Base of all. Its text is a sentence for whoever asked."""


class UrlError(MirrorError):
    """The URL cannot be mirrored."""


class AddressError(MirrorError):
    """The address of a mirrored file is malformed."""


class ForgedError(AddressError):
    """It is not one that this site has signed."""


class StorageError(MirrorError):
    """The storage does not take or give bytes now."""


class RulesError(MirrorError):
    """A rule for URLs that cannot be read."""


class WriteError(MirrorError):
    """The database does not take what was fetched: it has to be done again."""
