"""Pairs of measurements by wrk: the same content from the site and as a static file of the same nginx, in turns."""

import shutil
import subprocess
from collections.abc import Sequence

CONNECTIONS = 64
PATIENCE_SECONDS = 20


def tool() -> str:
    """wrk. Raises RuntimeError where it is missing."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise RuntimeError("wrk is missing: run ./setup.sh --dev, or install the package wrk")
    return wrk


def rates(
    urls: Sequence[str], rounds: int, seconds: int, *, connections: int = CONNECTIONS
) -> list[tuple[float, float]]:
    """Requests a second of both URLs, round by round, measured sometimes in this order and sometimes in that."""
    for url in urls:
        rate(url, seconds, connections)
    return [_pair(urls, place % 2, seconds, connections) for place in range(rounds)]


def _pair(urls: Sequence[str], first: int, seconds: int, connections: int) -> tuple[float, float]:
    found = {side: rate(urls[side], seconds, connections) for side in (first, 1 - first)}
    return found[0], found[1]


def rate(url: str, seconds: int, connections: int = CONNECTIONS) -> float:
    """Requests a second. Raises RuntimeError when not all are answered with 200."""
    load = ["--threads", "1", "--connections", str(connections), "--duration", f"{seconds}s"]
    command = [tool(), *load, "--timeout", f"{PATIENCE_SECONDS}s", url]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise RuntimeError(f"not all requests were answered:\n{done.stdout}")
    return next(float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("Requests/sec:"))
