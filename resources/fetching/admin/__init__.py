"""The admin of fetching: domains, headers by host, timings. Each registers itself."""

from .domains import DomainAdmin
from .headers import HeaderAdmin
from .timings import TimingAdmin

__all__ = ["DomainAdmin", "HeaderAdmin", "TimingAdmin"]
