"""`python -m benchmarks.mirror.lookups`: look-ups a second of URLs that are stored, in a stack's environment; as JSON.

By lists of several sizes, from Redis and from the database, and one query for each URL.
"""

import json
import time
from collections.abc import Callable, Sequence

import django

django.setup()

from resources.mirror import lookup  # noqa: E402
from resources.mirror.models import Resource  # noqa: E402

SIZES = (1, 100, 10_000)
SECONDS = 2.0


def rate(look_up: Callable[[Sequence[str]], object], keys: Sequence[str], size: int) -> float:
    """URLs a second, list after list."""
    lists = [keys[start : start + size] for start in range(0, len(keys) - size + 1, size)] or [keys]
    found, place, began = 0, 0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        look_up(lists[place % len(lists)])
        found += len(lists[place % len(lists)])
        place += 1
    return found / (time.perf_counter() - began)


def one_by_one(keys: Sequence[str]) -> None:
    for key in keys:
        Resource.objects.filter(pk=key).values_list("state", "blob_digest").first()


def main() -> None:
    keys = list(Resource.objects.filter(state="stored").values_list("pk", flat=True)[:20_000])
    lookup.look_up_urls(keys)  # Redis knows them from now on
    rates = {str(size): rate(lookup.look_up_urls, keys, size) for size in SIZES}
    print(json.dumps({**rates, "one by one": rate(one_by_one, keys, 100)}))


if __name__ == "__main__":
    main()
