"""Django's backends that the settings name: the cache of the admin's sessions, and the storage of static files."""

from typing import Any

from django.contrib.staticfiles.storage import ManifestStaticFilesStorage
from django_redis.cache import RedisCache

SESSION_CACHED_SECONDS = 60


class SessionCache(RedisCache):  # type: ignore[misc]  # untyped
    """Django's cache, with entries for a minute at most.

    A session that ended while the cache server was away, or whose row was deleted, ends within that time.
    """

    def set(self, key: str, value: Any, timeout: int, **options: Any) -> Any:
        return super().set(key, value, min(timeout, SESSION_CACHED_SECONDS), **options)


class HashedStaticFiles(ManifestStaticFilesStorage):
    """Names static files for browsers, and serves none. Hashes the names in JavaScript's imports, too.

    Else a browser joins old modules with new ones.
    """

    support_js_module_import_aggregation = True
