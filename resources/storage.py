"""Calls of Django's storage, timed and with errors of one kind. Knows no file and no row."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.core.files.storage import default_storage

from retry import metrics


@contextmanager
def storage_call(failure: Callable[[Exception], Exception]) -> Iterator[None]:
    """Times a storage call and turns its errors into those of `failure`. Raises FileNotFoundError as it is."""
    with metrics.time_call("storage"):
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, *getattr(default_storage, "errors", ())) as error:  # a bucket's errors are no OSErrors
            raise failure(error) from error
