"""`python -m project.announce ADDRESS LOGS`: says when the site is up, or what is missing."""

import json
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress

PATIENCE_SECONDS = 60


def main(address: str, logs: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    missing = ["the front"]
    while time.monotonic() < deadline:
        missing = _missing(address)
        if not missing:
            print(f"Tarry is ready: {address}/   (Ctrl-C ends it)", flush=True)
            return
        time.sleep(0.3)
    print(f"After {PATIENCE_SECONDS} s these parts do not work: {', '.join(missing)}. Logs: {logs}", flush=True)


def _missing(address: str) -> list[str]:
    """The parts that do not work yet."""
    try:
        with urllib.request.urlopen(f"{address}/healthz", timeout=5):  # noqa: S310  our own address
            return []
    except urllib.error.HTTPError as error:
        return _parts(error)
    except OSError:
        return ["the front"]


def _parts(error: urllib.error.HTTPError) -> list[str]:
    try:
        parts = json.loads(error.read())["parts"]
    except (ValueError, KeyError, TypeError):
        return [f"main ({error.code})"]
    return [name for name, part in parts.items() if not part["ok"]]


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
