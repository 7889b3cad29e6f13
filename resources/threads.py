"""Database connections of threads that no request brings in: Django looks after those of requests only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from django.db import close_old_connections, connection, connections

Answer = TypeVar("Answer")


@contextmanager
def usable_connections() -> Iterator[None]:
    """Around what a thread asks of the database: connections that broke, or are too old, are made anew.

    Inside a transaction there is nothing to look after, and nothing is closed.
    """
    if connection.in_atomic_block:
        yield
        return
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


def asked_once(ask: Callable[[], Answer]) -> Answer:
    """What a thread asks of the database that is not to ask again: it leaves no connections behind."""
    try:
        return ask()
    finally:
        connections.close_all()
