"""Others with the same feeds: PyPI's `reader`, and Scrapy with AutoThrottle, as they are by default.

They are installed into an environment of their own, and are no part of the project. Each has hosts of its own, in a
process of their own, so that all of them can be asked at the same time.
"""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from feeds.schedule.order import PlannedFetch

from ..fetch import publication
from ..fetch.publication import Asked, Publishing
from ..figures import Figure, Note
from . import installation
from .installation import MissingError

SCRIPTS = Path(__file__).parent / "scripts"
PACKAGES = ("reader>=3", "sgmllib3k", "Scrapy>=2.13")
"""reader imports sgmllib without declaring it."""
MOST_SECONDS = 480.0
"""The limit for a peer. It is ended then, and its missing feeds are stated."""
SLOTS = 20


class NotRunningError(Exception):
    """Its last words."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Its name, and its script with arguments. `{folder}` stands for a directory of its own."""

    name: str
    script: str
    arguments: Sequence[str]


PEERS = (
    Peer("reader, 20 workers", "with_reader.py", ("{folder}/reader.sqlite3", "20")),
    Peer("reader, 4 workers", "with_reader.py", ("{folder}/reader.sqlite3", "4")),
    Peer("Scrapy, AutoThrottle", "with_scrapy.py", (str(SLOTS),)),
)


def compare(feeds: Sequence[PlannedFetch], folder: Path, ours_seconds: float) -> Iterator[Figure | Note]:
    """The seconds of each for the same feeds, and the feeds it leaves out; ÷ our seconds."""
    try:
        python = installation.commands("feeds", *PACKAGES) / "python"
    except MissingError as missing:
        yield Note(f"reader and Scrapy are missing: {missing}")
        return
    with ExitStack() as parts:
        running = []
        for number, peer in enumerate(PEERS):
            try:
                running.append((peer, *_start(parts, peer, python, folder / str(number), feeds)))
            except NotRunningError as error:
                yield Note(f"{peer.name} does not run here: not compared: {error}")
        deadline = time.monotonic() + MOST_SECONDS
        for peer, hosts, process in running:
            has_ended = _has_ended(process, deadline)
            yield from _figures(peer.name, hosts.asked(), len(feeds), ours_seconds, has_ended=has_ended)


def _has_ended(process: "subprocess.Popen[str]", deadline: float) -> bool:
    """Tells whether the process has ended by the deadline. Kills it otherwise."""
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        return False
    return True


def _start(
    parts: ExitStack, peer: Peer, python: Path, folder: Path, feeds: Sequence[PlannedFetch]
) -> tuple[Publishing, "subprocess.Popen[str]"]:
    """Returns when it begins to fetch. It ends with `parts` at the latest. Raises NotRunningError."""
    folder.mkdir()
    hosts = parts.enter_context(publication.running(folder / "asked", feeds))
    arguments = [each.format(folder=folder) for each in peer.arguments]
    command = ["setpriv", "--pdeathsig", "KILL", str(python), str(SCRIPTS / peer.script), *arguments]
    pipe = subprocess.PIPE
    with (folder / "log").open("w") as log:
        process = parts.enter_context(
            subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True, cwd=folder)
        )
    parts.callback(process.kill)
    assert process.stdin
    assert process.stdout
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write("\n".join(hosts.urls))
    if process.stdout.readline() != "begins\n":
        raise NotRunningError((folder / "log").read_text().strip().rpartition("\n")[-1])
    return hosts, process


def _figures(
    name: str, asked: Sequence[Asked], feeds: int, ours_seconds: float, *, has_ended: bool
) -> Iterator[Figure]:
    """From the first request to the last answer. A feed is lost that was not answered with its body by then."""
    began = min((one.began for one in asked), default=0.0)
    served = {one.feed: one.ended for one in asked if one.status == 200}
    took = max((one.ended for one in asked), default=0.0) - began
    yield Figure(f"{name}: makespan", took, "s")
    yield Figure("  ÷ Tarry's, with timings", took / ours_seconds)
    yield Figure("  mean completion, of those that came", sum(served.values()) / max(1, len(served)) - began, "s")
    lost = "  feeds lost" if has_ended else f"  feeds that had not come after {MOST_SECONDS:.0f} s, when it was ended"
    yield Figure(lost, feeds - len(served))
    yield Figure("  refused with 429 ÷ all requests", sum(one.status == 429 for one in asked) / max(1, len(asked)))
