"""The errors of layers and their data. PURE."""


class LayerError(Exception):
    """Data or a style that cannot become a layer. Its message is shown to the person who gave it."""


class SpeedsError(LayerError):
    """Speeds that cannot be used, while the geometry may be sound."""


class NoSpeedsError(SpeedsError):
    """The layer is of a kind that has no speeds."""


class UnknownLayerError(LayerError):
    """There is no such layer, or it is switched off."""


class SupersededError(SpeedsError):
    """Speeds that were made from others than those in service by now."""


class BusyError(LayerError):
    """The machine reads as many files as it may already. Says nothing of this one."""


class StorageError(OSError):
    """The storage, or the disk, did not do what it was asked. Says nothing of the data."""
