"""Workers that render, as for what is served."""

from tests.feeds.serving.conftest import workers

__all__ = ["workers"]
