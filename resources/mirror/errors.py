"""The errors of mirrored files. PURE."""


class MirrorError(Exception):
    """Base of all errors of mirrored files. Its text is a sentence for the client."""


class UrlError(MirrorError):
    """The URL cannot be mirrored."""


class MirrorAddressError(MirrorError):
    """The address of a mirrored file is malformed."""


class ForgedError(MirrorAddressError):
    """This site has not signed the address."""


class StorageError(MirrorError):
    """The storage does not take or give bytes at present."""


class RulesError(MirrorError):
    """A URL rule, or the file of rules, cannot be read."""


class WriteError(MirrorError):
    """The database does not take an outcome: the fetch has to be repeated."""


class UnreadableImageError(Exception):
    """An image that cannot be read. Its text ends a sentence that begins with “The image”."""


class ThumbnailError(Exception):
    """An address that names no thumbnail. The message says how one is named."""
