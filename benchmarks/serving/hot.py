"""A hot tile from the front beside a bare nginx that keeps the same answer: header fields, and nginx' CPU time."""

import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from email.message import Message
from pathlib import Path

from tests.nginx.origin import Answer, Origin
from tests.support.processes import family
from tests.support.stack import Stack, eventually

from .. import pairs
from ..figures import Figure, Note, median
from ..peers import nginx, static
from ..tiles.tile_requests import fetched, painted_tile

ROUNDS, ROUND_SECONDS = 11, 2
SHARE, FIELDS_MAX_BYTES = 0.95, 350
KEPT = """
            proxy_pass http://unix:{socket}:;
            proxy_cache hot;
"""


def measure() -> Iterator[Figure | Note]:
    """CPU time of nginx for a hot tile, of a bare nginx ÷ of the front; bytes of fields that a file has not."""
    pairs.tool()
    with Stack() as stack:
        path = painted_tile(stack)
        body, fields = fetched(stack, path), _fields(stack.base_url + path)
        yield Note(f"a tile of {len(body):,} bytes; fields: {', '.join(fields)}")
        yield Figure("header fields beside those of a file", _size(fields), "bytes", at_most=FIELDS_MAX_BYTES)
        front = (stack.base_url + path, stack.pid("nginx"))
        for name, settings, share in (
            ("as packaged", nginx.PACKAGED, SHARE),
            ("tuned, without a log", nginx.QUICK, None),
        ):
            with _bare(settings, Answer(200, {"X-Accel-Expires": "3600", **fields}, body)) as bare:
                if _fields(bare[0]) != fields:
                    raise RuntimeError(f"the bare nginx answers otherwise: {_fields(bare[0])}")
                rounds = [_pair((bare, front), first=place % 2) for place in range(ROUNDS)]
            yield from _compared(name, rounds, share)


def _compared(name: str, rounds: list[tuple[float, float]], share: float | None) -> Iterator[Figure]:
    for side, place in ((f"bare nginx, {name}", 0), ("front", 1)):
        yield Figure(f"CPU time of a hot tile, {side}, median", 1e6 * median([pair[place] for pair in rounds]), "µs")
    ratios = [of_bare / of_front for of_bare, of_front in rounds]
    yield Figure(f"CPU time, bare nginx, {name} ÷ front, median of pairs", median(ratios), at_least=share)


def _fields(url: str) -> dict[str, str]:
    """Those of a hot answer, without those that nginx gives to every answer and file by itself."""
    for _ in range(2):
        with urllib.request.urlopen(url, timeout=10) as answer:
            fields: Message = answer.headers
    own = static.NGINX_OWN - {"last-modified", "etag"}
    return {name: ", ".join(fields.get_all(name, [])) for name in fields if name.lower() not in own}


def _size(fields: dict[str, str]) -> int:
    """Bytes of the lines, without the fields of a file."""
    own = static.NGINX_OWN | {"content-type"}
    return sum(len(f"{name}: {value}\r\n") for name, value in fields.items() if name.lower() not in own)


@contextmanager
def _bare(settings: str, answer: Answer) -> Iterator[tuple[str, int]]:
    """The address of that answer in the cache of an nginx that does nothing else, and that nginx' pid."""
    with ExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        origin = Origin(folder / "origin.sock")
        origin.answer = lambda _: answer
        parts.callback(origin.close)
        host = parts.enter_context(nginx.running(folder, KEPT.format(socket=folder / "origin.sock"), settings))
        eventually((folder / "nginx.pid").exists, 10, "nginx has started")
        yield f"http://{host}/tile.png", int((folder / "nginx.pid").read_text())


def _pair(sides: tuple[tuple[str, int], ...], *, first: int) -> tuple[float, float]:
    """CPU time of a request in seconds, of both, sometimes in this order and sometimes in that."""
    found = {side: _cpu_seconds(*sides[side]) for side in (first, 1 - first)}
    return found[0], found[1]


def _cpu_seconds(url: str, pid: int) -> float:
    before = _taken(pid)
    rate = pairs.rate(url, ROUND_SECONDS)
    return (_taken(pid) - before) / (rate * ROUND_SECONDS)


def _taken(pid: int) -> float:
    """CPU time of a process and its children so far."""
    times = [process.cpu_times() for process in family(pid)]
    return sum(each.user + each.system for each in times)
