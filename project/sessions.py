"""The cache of the admin's sessions."""

from typing import Any

from django_redis.cache import RedisCache

SESSION_CACHED_SECONDS = 60


class SessionCache(RedisCache):  # type: ignore[misc]  # untyped
    """Django's cache, with entries for a minute at most.

    A session that ended while the cache server was away, or whose row was deleted, ends within that time.
    """

    def set(self, key: str, value: Any, timeout: int, **options: Any) -> Any:
        return super().set(key, value, min(timeout, SESSION_CACHED_SECONDS), **options)
