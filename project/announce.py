"""`python -m project.announce ADDRESS LOGS [NOTE]`: prints when the site is up, or which parts are missing."""

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
"""A slower start prints the parts that it waits for: a server elsewhere may not answer."""

AGAIN_SECONDS = 0.3


def main(address: str, logs: str, note: str = "") -> None:
    """Prints the note below the message that the site is ready."""
    began, has_reported = time.monotonic(), False
    missing = ["the front"]
    while time.monotonic() < began + PATIENCE_SECONDS:
        missing = _missing_parts(address)
        if not missing:
            print("\n".join(filter(None, (f"Tarry is ready: {address}/   (Ctrl-C ends it)", note))), flush=True)
            return
        if not has_reported and time.monotonic() - began >= QUIET_SECONDS:
            print(f"Still starting. These parts do not work yet: {', '.join(missing)}.", flush=True)
            has_reported = True
        time.sleep(AGAIN_SECONDS)
    print(f"After {PATIENCE_SECONDS} s these parts do not work: {', '.join(missing)}. Logs: {logs}", flush=True)


def _missing_parts(address: str) -> list[str]:
    public = urlsplit(os.environ.get("PUBLIC_URL", "")).netloc
    fields = {"Host": public} if public else {}  # which this site always accepts, whatever address it listens on
    try:
        request = urllib.request.Request(f"{address}/healthz", headers=fields)  # noqa: S310  our own address
        with urllib.request.urlopen(request, timeout=5):  # noqa: S310
            return []
    except urllib.error.HTTPError as error:
        return _failing_parts(error)
    except OSError:
        return ["the front"]


def _failing_parts(error: urllib.error.HTTPError) -> list[str]:
    """Lists the parts of this machine that do not work. Another machine may be in trouble at any time."""
    try:
        parts = json.loads(error.read())["parts"]
    except (ValueError, KeyError, TypeError):
        return [f"main ({error.code})"]
    return [name for name, part in parts.items() if not part["ok"] and name != "machines"]


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
