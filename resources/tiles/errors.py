"""The errors of layers, their data and upstream tiles. PURE."""


class LayerError(Exception):
    """Data or a style that cannot become a layer. Its message is shown to the person that sent it."""


class SpeedsError(LayerError):
    """Speeds that cannot be used, while the geometry may be sound."""


class NoSpeedsError(SpeedsError):
    """The layer is of a kind that has no speeds."""


class UnknownLayerError(LayerError):
    """The layer does not exist or is disabled."""


class SupersededError(SpeedsError):
    """Speeds made from others than those now in service."""


class LayerBusyError(LayerError):
    """The machine already reads as many files as it may. Does not judge this one."""


class LayerStorageError(OSError):
    """The storage or the disk failed. Does not judge the data."""


class UpstreamImageError(Exception):
    """An answer that is no tile. The message names its real kind, to follow “It sent”: short, without addresses."""
