"""The router that API_ROUTERS names, with all operations."""

from . import manage, read  # noqa: F401  # they add to the shared router
from .read import router

__all__ = ["router"]
