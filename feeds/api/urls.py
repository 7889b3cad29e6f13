"""What the site's API takes from feeds, named by API_ROUTERS."""

from . import managing, reading  # noqa: F401  # they add to the shared router
from .routing import router

__all__ = ["router"]
