"""Calls of Django's storage, whatever it is: timed, and with errors of one kind. Knows no file and no row."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.core.files.storage import default_storage

from retry import observing


@contextmanager
def asked(failure: Callable[[Exception], Exception]) -> Iterator[None]:
    """Times what the storage does, and raises what `failure` makes of its errors, but for a file that is not there."""
    with observing.timed("storage"):
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, *getattr(default_storage, "errors", ())) as error:  # what a bucket raises is no OSError
            raise failure(error) from error
