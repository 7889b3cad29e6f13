"""What becomes of rows whose bytes are gone. Resources' rows go first, then the blob's: nothing points nowhere."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import islice

from ..knowing import ordering, seen
from ..knowing.models import Blob, Resource, State, Validator

ROWS = 500


def lose(digests: Iterable[str], now: datetime) -> int:
    """Nobody has these bytes any more: their URLs are wanted again. How many URLs there are.

    What was taken down stays as it is. Raises DatabaseError.
    """
    return sum(_lose(some, now) for some in _portions(digests))


def want_again(urls: Collection[str], now: datetime) -> None:
    """These URLs, by digest, have no content any more, and are fetched as soon as their turn comes.

    What is fetched or tried again already keeps its turn.
    """
    for some in _portions(urls):
        rows = Resource.objects.filter(url_digest__in=some)
        with seen.changing(some):
            ordering.update(rows.filter(state=State.WANTED).exclude(blob_digest=""), blob_digest="")
            ordering.update(rows.filter(state=State.STORED), state=State.WANTED, blob_digest="", due_at=now, attempts=0)


def forget_validators(digests: Collection[str], until: float | None = None) -> bool:
    """Nothing is taken for this content any more because of what an origin says of it. Whether there was time for all
    of it (until then, monotonic).
    """
    return ordering.delete_all(Validator.objects.filter(blob_digest__in=digests), until)


def url_digests(digests: Collection[str]) -> list[str]:
    """Of the URLs that gave this content."""
    return list(Resource.objects.filter(blob_digest__in=digests).values_list("url_digest", flat=True))


def _lose(digests: Collection[str], now: datetime) -> int:
    lost = list(Blob.objects.filter(digest__in=digests, taken_down_at=None).values_list("digest", flat=True))
    number = 0
    for urls in ordering.portions(Resource.objects.filter(blob_digest__in=lost).exclude(state=State.FAILED)):
        want_again(urls, now)
        number += len(urls)
    forget_validators(lost)
    # What was stored again since then stays.
    ordering.delete(Blob.objects.filter(digest__in=lost, taken_down_at=None, accessed_at__lte=now))
    return number


def _portions(digests: Iterable[str]) -> Iterator[list[str]]:
    left = iter(digests)
    while some := list(islice(left, ROWS)):
        yield some
