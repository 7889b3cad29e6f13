"""A mirrored file by its digest against a static file: served straight, of the commonest type.

nginx tries one type after the other; the cost of the last type is stated too.
"""

import os
import urllib.request
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from resources.mirror.public_files import DIRECT_ENDINGS
from tests.support.stack import Stack, eventually

from .. import pairs
from ..figures import Figure, Note, median
from ..peers import static

ROUNDS, ROUND_SECONDS = 9, 2
CONNECTIONS = 16
"""Of large files fewer are on their way at a time: 64 of 50 MB would measure the client's patience."""

LAST_SIZES = ("10 KB", "1 MB")
SIZES = {"10 KB": 10_000, "100 KB": 100_000, "1 MB": 1_000_000, "10 MB": 10_000_000, "50 MB": 50_000_000}
COMMONEST, LAST = next(iter(DIRECT_ENDINGS)), next(reversed(DIRECT_ENDINGS))
SHARE = 0.9

_STORE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from resources.mirror.storage import blobs
from resources.mirror.models import Blob
now = datetime.now(UTC)
for path, media_type in {files!r}:
    path = Path(path)
    name = blobs.keep_blob(path, path.name)
    given = dict(media_type=media_type, holder="", stored_at=now, uploaded_at=now, accessed_at=now)
    Blob.objects.create(digest=path.name, size=path.stat().st_size, name=name, **given)
"""


def measure() -> Iterator[Figure | Note]:
    """Requests a second by digest ÷ for the same bytes as a static file of the same nginx."""
    pairs.tool()
    with Stack() as stack:
        folder = stack.data / "static" / "files"
        folder.mkdir()
        files = {(label, COMMONEST): _written(folder, size) for label, size in SIZES.items()}
        files |= {(label, LAST): _written(folder, SIZES[label]) for label in LAST_SIZES}
        stored = [(str(path), media_type) for (_, media_type), path in files.items()]
        stack.manage("shell", "-c", _STORE.format(files=stored))
        addresses = [f"/resources/{path.name}" for path in files.values()]
        eventually(lambda: all([_is_served_straight(stack, each) for each in addresses]), 20, "nginx has them all")  # noqa: C419  each is asked for
        static.serve_alike(stack, addresses[0], folder)
        for (label, media_type), path in files.items():
            by_digest, alike, bare = (
                f"{stack.base_url}{place}{path.name}" for place in ("/resources/", static.PATH, "/static/files/")
            )
            share = SHARE if media_type == COMMONEST else None
            name = f"{label}, {media_type}, by digest ÷ nginx static"
            yield from _compared(f"{name} with the same fields", by_digest, alike, share)
            yield from _compared(f"{name} as it is", by_digest, bare, None)


def _compared(label: str, url: str, other: str, share: float | None) -> Iterator[Figure | Note]:
    rounds = pairs.rates([url, other], ROUNDS, ROUND_SECONDS, connections=CONNECTIONS)
    ratios = [by_digest / static for by_digest, static in rounds]
    by_digest, static = (median([pair[side] for pair in rounds]) for side in (0, 1))
    yield Note(f"{by_digest:,.0f} and {static:,.0f} requests/s, ratios from {min(ratios):.2f} to {max(ratios):.2f}")
    yield Figure(label, median(ratios), at_least=share)


def _is_served_straight(stack: Stack, address: str) -> bool:
    with urllib.request.urlopen(stack.base_url + address) as answer:
        return "detail=file" in answer.headers["Cache-Status"]


def _written(folder: Path, size: int) -> Path:
    body = os.urandom(size)
    path = folder / sha256(body).hexdigest()
    path.write_bytes(body)
    return path
