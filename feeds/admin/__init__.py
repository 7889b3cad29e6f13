"""The admin of feeds.

Public: nothing. Django imports this package, and its modules register themselves.
"""

from . import feeds, related, subscribers, webhook_pages  # noqa: F401  # they register themselves
