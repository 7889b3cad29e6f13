"""What a cached tile costs more than a file."""

import shutil
import subprocess
from collections.abc import Iterator

from benchmarks.figures import Figure, Note, median
from benchmarks.tiles import fetched, painted_tile
from tests.flows.stack import Stack

ROUNDS, ROUND_SECONDS = 7, 3
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
        _rate(wrk, stack.base_url + tile)
        rounds = [
            (_rate(wrk, stack.base_url + tile), _rate(wrk, stack.base_url + "/static/tile.png")) for _ in range(ROUNDS)
        ]
    for hot, static in rounds:
        yield Note(f"{hot:,.0f} ÷ {static:,.0f} requests/s = {hot / static:.3f}")
    yield Figure("a tile of", len(body), "bytes")
    ratio = median([hot / static for hot, static in rounds])
    yield Figure("cached tile ÷ the same file as nginx static, requests/s, median", ratio, at_least=SHARE)


def _rate(wrk: str, url: str) -> float:
    """Requests a second. Raises RuntimeError when not all are answered with 200."""
    command = [wrk, "--threads", "1", "--connections", str(CONNECTIONS), "--duration", f"{ROUND_SECONDS}s", url]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise RuntimeError(f"not all requests were answered:\n{done.stdout}")
    return next(float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("Requests/sec:"))
