"""What a cached tile costs more than a file."""

import shutil
import subprocess
from collections.abc import Iterator

from benchmarks.figures import Figure, Note, median
from benchmarks.tiles import fetched, painted_tile
from tests.flows.stack import Stack

ROUNDS, ROUND_SECONDS = 15, 2
CONNECTIONS = 64
SHARE = 0.9


def measure() -> Iterator[Figure | Note]:
    """Requests a second for a tile from the hot cache ÷ for the same bytes as a static file of the same nginx."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise RuntimeError("wrk is missing: run ./setup.sh --dev, or install the package wrk")
    with Stack() as stack:
        tile = painted_tile(stack)
        body = fetched(stack, tile)
        (stack.data / "static" / "tile.png").write_bytes(body)
        urls = [stack.base_url + tile, stack.base_url + "/static/tile.png"]
        for url in urls:
            _rate(wrk, url)
        rounds = [_pair(wrk, urls, first=place % 2) for place in range(ROUNDS)]
    ratios = [hot / static for hot, static in rounds]
    yield Note(f"a tile of {len(body):,} bytes, ratios from {min(ratios):.2f} to {max(ratios):.2f}")
    for name, side in (("cached tile", 0), ("static file", 1)):
        yield Figure(f"{name}, median", median([pair[side] for pair in rounds]), "req/s")
    yield Figure("cached tile ÷ the same file as nginx static, median of pairs", median(ratios), at_least=SHARE)


def _pair(wrk: str, urls: list[str], *, first: int) -> tuple[float, float]:
    """The rates of both, measured one after the other, sometimes in this order and sometimes in that."""
    rates = {side: _rate(wrk, urls[side]) for side in (first, 1 - first)}
    return rates[0], rates[1]


def _rate(wrk: str, url: str) -> float:
    """Requests a second. Raises RuntimeError when not all are answered with 200."""
    command = [wrk, "--threads", "1", "--connections", str(CONNECTIONS), "--duration", f"{ROUND_SECONDS}s", url]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise RuntimeError(f"not all requests were answered:\n{done.stdout}")
    return next(float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("Requests/sec:"))
