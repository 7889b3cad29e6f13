"""The errors of layers and their data."""


class LayerError(Exception):
    """Data or a style that cannot become a layer. Its message is shown to the person who gave it."""


class SpeedsError(LayerError):
    """Speeds that cannot be used, while the geometry may be sound."""


class UnknownLayerError(LayerError):
    """There is no such layer, or it is switched off."""
