"""A site of its own with its origins and its cloud, and the questions of its client."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import requests

from feeds import addresses, opml
from feeds.opml import ListedFeed

from ..flows.faults.conftest import IMPATIENT
from ..support import cloud_server
from ..support.cloud_server import Cloud
from ..support.layers import write_speeds
from ..support.stack import ROOT, Stack, eventually
from .certificates import Certificates
from .means import Means
from .origins import ENTRIES, HEAVY, Origin
from .prewarm_run import Prewarming
from .promises import Promises
from .questions import CACHED, Questions
from .steady import Steady

HOSTS = {"well": "127.9.0.1", "leaving": "127.9.0.2", "sealed": "127.9.0.3", "named": "127.9.0.4"}
NAMED = "files.example"
"""The domain of the origin `named`."""
FEEDS = 64
"""Enough for the news of a ping to be shown (lateness.SHOWN_SECONDS) before the next ping of the same feed."""
HEAVY_EVERY = 4
"""Every n-th cold file of the origin `well` is heavy. The small disk has room for those of ten minutes."""
PREPARED_SECONDS = 90
SETTINGS = {
    **IMPATIENT,
    "RETRY_REDIS_TIMEOUT": "0.3",
    "ADMIN_TIMEOUT": "20",
    "MIRROR_RETRY_SECONDS": "2",
    "MIRROR_ATTEMPTS": "20",
    "FETCH_BACKOFF_MAX_SECONDS": "5",
    "FETCH_ALLOW_PRIVATE": "127.0.0.0/8",
}
SUBSCRIBE = """
from datetime import UTC, datetime
from feeds.subscriptions import renewals
renewals.scan_subscriptions(datetime.now(UTC))
"""


@dataclass(slots=True)
class World:
    stack: Stack
    origins: Mapping[str, Origin]
    cloud: Cloud
    certificates: Certificates
    client: Steady
    prewarming: Prewarming
    promises: Promises
    means: Means
    large: str
    """The address of a large file, which is cached."""
    subscribed: int

    def leave(self) -> None:
        """Ends the client and pre-warming."""
        self.client.leave()
        self.prewarming.leave()


@contextmanager
def running(stack: Stack, folder: Path, means: Means, *, colds: int) -> Iterator[World]:
    """Starts the site and its client. `colds` is the number of files of each origin, each requested once.

    The origin `named` is asked only if there is a name server.
    """
    certificates = Certificates.made(folder, HOSTS["sealed"])
    stack.environment |= {"SSL_CERT_FILE": str(certificates.trusted)}
    origins = {name: Origin(host, certificates.context if name == "sealed" else None) for name, host in HOSTS.items()}
    promises = Promises()
    with cloud_server.running() as cloud, stack:
        for origin in origins.values():
            origin.come()
        origins["well"].more = cloud_server.element(cloud)
        files = _files(origins, colds, means.names.host if means.names else "")
        large = f"{origins['well'].url}/large/file"
        told = _prepared(stack, folder, origins, cloud, [large, *(url for urls in files.values() for url in urls)])
        requests.get(stack.base_url + told["signed"][large], timeout=PREPARED_SECONDS).raise_for_status()
        callbacks = _subscribed(stack, cloud, origins["well"])
        asking = Questions(stack.base_url, origins["well"], promises, told["token"], told["signed"], callbacks)
        with Prewarming(stack) as prewarming, Steady(stack.base_url, asking.kinds(files)) as client:
            signed, feeds = told["signed"][large], len(callbacks)
            yield World(stack, origins, cloud, certificates, client, prewarming, promises, means, signed, feeds)
        for origin in origins.values():
            origin.go()


def _files(origins: Mapping[str, Origin], colds: int, named: str) -> dict[str, list[str]]:
    files = {
        name: [f"{origins[name].url}/files/{name}/{number}" for number in range(colds)]
        for name in ("well", "leaving", "sealed")
    }
    heavy = [f"{origins['well'].url}{HEAVY}{number}" for number in range(CACHED, colds, HEAVY_EVERY)]
    files["well"][CACHED::HEAVY_EVERY] = heavy
    if named:  # each has a new name, which was never looked up
        port = origins["named"].port
        files["named"] = [f"http://n{number}.{named}:{port}/files/named/{number}" for number in range(colds)]
    return files


def _prepared(
    stack: Stack, folder: Path, origins: Mapping[str, Origin], cloud: Cloud, files: Sequence[str]
) -> dict[str, Any]:
    given = {
        "origins": [cloud.url, *(origin.url for origin in origins.values())],
        "upstream": {f"of-{name}": f"{origins[name].url}/tiles/{{z}}/{{x}}/{{y}}.png" for name in ("well", "leaving")},
        "line": str(_line(folder)),
        "speeds": str(write_speeds(folder, "green")),
        "opml": str(_list_of_feeds(folder, origins["well"])),
        "files": files,
    }
    command = [sys.executable, "-m", "tests.chaos.site_contents"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=stack.managed(),
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=PREPARED_SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"the site could not be prepared:\n{done.stdout}\n{done.stderr}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _line(folder: Path) -> Path:
    geometry = {"type": "LineString", "coordinates": [[-90, 0.1], [90, 0.1]]}
    line = {"type": "Feature", "id": "a", "properties": {}, "geometry": geometry}
    file = folder / "line.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [line]}))
    return file


def _list_of_feeds(folder: Path, origin: Origin) -> Path:
    rows = [ListedFeed(addresses.read_address(origin.url + path), categories=(("Chaos",),)) for path in paths()]
    file = folder / "feeds.opml"
    file.write_bytes(opml.write_opml(rows, "Chaos", datetime.now(UTC)))
    return file


def paths() -> list[str]:
    return [f"/feeds/{number}" for number in range(FEEDS)]


def served(stack: Stack) -> list[str]:
    """The titles of all entries, as they are served together; nothing while they are not."""
    answer = requests.get(f"{stack.base_url}/feeds/category/chaos.json?limit=200", timeout=60)
    return [item["title"] for item in answer.json()["items"]] if answer.ok else []


def _subscribed(stack: Stack, cloud: Cloud, origin: Origin) -> dict[str, str]:
    """Waits until every feed is read and registered at the cloud; returns where each is told of."""
    eventually(lambda: len(served(stack)) == FEEDS * len(ENTRIES), PREPARED_SECONDS, "all feeds are read and served")
    stack.manage("shell", "-c", SUBSCRIBE)
    eventually(lambda: len(subscriptions(cloud, origin)) == FEEDS, PREPARED_SECONDS, "all are registered")
    return subscriptions(cloud, origin)


def subscriptions(cloud: Cloud, origin: Origin) -> dict[str, str]:
    """The callback of each feed at the cloud, by its path."""
    return {url.removeprefix(origin.url): who.url for url, who in list(cloud.registered)}
