"""Fixtures for all tests. Starts nothing that a test does not ask for."""

import gc
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management.commands import flush
from django.db.backends.base.operations import BaseDatabaseOperations
from django.db.backends.postgresql.base import DatabaseWrapper as PostgreSQL
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLite
from hypothesis import settings as hypothesis_settings

from . import settings
from .hostile.origin import Origin
from .support.redis_servers import RedisServer
from .support.scheduling import BySite, sort_by_length, wait_for_processors

gc.disable()  # while tests are collected, which all stay: it takes a sixth less time

# No test is timed: machines are noisy.
hypothesis_settings.register_profile("untimed", deadline=None)
hypothesis_settings.load_profile("untimed")

KEPT_TABLES = {"django_content_type", "auth_permission"}
"""Those whose rows are the same for all tests: to delete and to make them takes longer than most tests."""


def _delete_rows(operations: BaseDatabaseOperations, style: object, tables: list[str], **_: bool) -> list[str]:
    """The statements that empty tables between tests. There are few rows: TRUNCATE takes ten times as long."""
    return [f"DELETE FROM {operations.quote_name(table)}" for table in tables if table not in KEPT_TABLES]


def _make_migrated_rows(*_: object) -> None:
    apps.get_model("feeds", "Category").objects.create(slug="all", title="All feeds")


for _database in (PostgreSQL, SQLite):
    _database.ops_class.sql_flush = _delete_rows  # type: ignore[method-assign,assignment]
flush.emit_post_migrate_signal = _make_migrated_rows  # type: ignore[attr-defined]

FLOWS = Path(__file__).parent / "flows"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Four processes for two cores: tests often wait."""
    return 2 * len(os.sched_getaffinity(0))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> BySite:
    config.option.loadscopereorder = False  # by their number
    return BySite(config, log)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    wait_for_processors(item)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On PostgreSQL leaves out tests without a database: there they would be the same again."""
    sort_by_length(items)
    if not os.environ.get("DATABASE_URL", "").startswith("postgres"):
        return
    same = [item for item in items if not _uses_the_database(item)]
    config.hook.pytest_deselected(items=same)
    items[:] = [item for item in items if _uses_the_database(item)]


def _uses_the_database(item: pytest.Item) -> bool:
    """pytest-django lets a unit test use the database only if it declares so; a flow declares that it does not.

    The pages in a browser are those of other flows and unit tests, with either database.
    """
    if FLOWS in item.path.parents:
        return item.get_closest_marker("no_database") is None and item.get_closest_marker("browser") is None
    asked: list[str] = getattr(item, "fixturenames", [])
    return item.get_closest_marker("django_db") is not None or not {"db", "transactional_db"}.isdisjoint(asked)


@dataclass(frozen=True, slots=True)
class RedisServers:
    """The two servers that REDIS_URL and CACHE_URL name in tests."""

    state: RedisServer
    cache: RedisServer


@pytest.fixture(scope="session")
def _running_redis_servers() -> Iterator[RedisServers]:
    directory = Path(settings.RUNTIME_DIR)
    servers = RedisServers(
        state=RedisServer(directory / "state.sock", "--maxmemory-policy", "noeviction"),
        cache=RedisServer(directory / "cache.sock", "--maxmemory", "128mb", "--maxmemory-policy", "allkeys-lru"),
    )
    servers.state.start()
    servers.cache.start()
    yield servers
    servers.state.stop()
    servers.cache.stop()


@pytest.fixture
def redis_servers(_running_redis_servers: RedisServers) -> RedisServers:
    """Both servers, running and empty."""
    for server in (_running_redis_servers.state, _running_redis_servers.cache):
        if server.process is None:  # the test before stopped it
            server.start()
        server.client.flushall()
    return _running_redis_servers


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    """An origin in the loop of the test."""
    async with Origin() as origin:
        yield origin
