"""`python -m project.announce ADDRESS LOGS`: says when the site is up, or what is missing."""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from urllib.parse import urlsplit

PATIENCE_SECONDS = 60
QUIET_SECONDS = 8
"""A start that takes longer says what it waits for: a server elsewhere may not answer."""

AGAIN_SECONDS = 0.3


def main(address: str, logs: str) -> None:
    began = time.monotonic()
    deadline, said = began + PATIENCE_SECONDS, False
    missing = ["the front"]
    while time.monotonic() < deadline:
        missing = _missing(address)
        if not missing:
            print(f"Tarry is ready: {address}/   (Ctrl-C ends it)", flush=True)
            return
        if not said and time.monotonic() - began >= QUIET_SECONDS:
            print(f"Still starting. These parts do not work yet: {', '.join(missing)}.", flush=True)
            said = True
        time.sleep(AGAIN_SECONDS)
    print(f"After {PATIENCE_SECONDS} s these parts do not work: {', '.join(missing)}. Logs: {logs}", flush=True)


def _missing(address: str) -> list[str]:
    """The parts that do not work yet."""
    try:
        request = urllib.request.Request(f"{address}/healthz", headers=_host())  # noqa: S310  our own address
        with urllib.request.urlopen(request, timeout=5):  # noqa: S310
            return []
    except urllib.error.HTTPError as error:
        return _parts(error)
    except OSError:
        return ["the front"]


def _host() -> dict[str, str]:
    """The host that this site answers for certain, whatever address it listens on."""
    public = urlsplit(os.environ.get("PUBLIC_URL", "")).netloc
    return {"Host": public} if public else {}


def _parts(error: urllib.error.HTTPError) -> list[str]:
    try:
        parts = json.loads(error.read())["parts"]
    except (ValueError, KeyError, TypeError):
        return [f"main ({error.code})"]
    return [name for name, part in parts.items() if not part["ok"]]


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
