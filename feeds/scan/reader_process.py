"""Reads feeds in processes of their own: what takes strangers' bytes apart has no secrets, bounded memory and time.

The children import nothing of Django. `python -m feeds.gathering.apart BYTES PARENT` is their side.
"""

import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from queue import Empty, LifoQueue

from resources import apart
from resources.apart import Allowance, Child, Message
from resources.fetching.outcomes import Body

from .. import readings
from ..errors import FeedError
from ..parsing.discovery import FeedAddress
from ..readings import NoFeed, Question, Reading

NICE = 5
"""Hundreds of feeds may come at once: whoever answers clients goes before them."""
FATAL, TOO_LONG = "It cannot be read: the reader failed.", "It takes too long to read."
TOO_LARGE = "It takes more memory to read than there is for one feed."


class BusyError(FeedError):
    """All readers have other feeds to read. Nothing is wrong with this one."""


class Readers:
    """So many children that read, each started when it is needed. The one that read last reads next.

    `lost` is told of each that ended over a feed: it had "died", or took "too long".
    """

    def __init__(self, number: int, lost: Callable[[str], object], idle_seconds: float = apart.IDLE_SECONDS) -> None:
        self._lost = lost
        self._free: LifoQueue[Child] = LifoQueue()
        self._all = [Child("feeds.gathering.apart", idle_seconds) for _ in range(number)]
        for child in reversed(self._all):
            self._free.put(child)

    def read(self, body: Body, question: Question, allowance: Allowance) -> Reading | NoFeed:
        """What the body says. Waits for a reader as long as reading may take. Raises BusyError.

        A reader may die of a feed. Then that is no feed, and there will be another reader for the next.
        """
        try:
            child = self._free.get(timeout=allowance.seconds)
        except Empty as error:
            raise BusyError("All readers of feeds are busy.") from error
        try:
            return _read(child, body, question, allowance)
        except apart.TooLongError:
            self._lost("too long")
            return NoFeed(TOO_LONG)
        except apart.DiedError:
            self._lost("died")
            return NoFeed(FATAL)
        finally:
            self._free.put(child)

    def close(self) -> None:
        """Ends the children. They come again when they are needed."""
        for child in self._all:
            child.close()

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._all if child.pid]


def _read(child: Child, body: Body, question: Question, allowance: Allowance) -> Reading | NoFeed:
    with io.BytesIO(body.data or b"") if body.path is None else body.path.open("rb") as file:
        answer = child.ask(question.to_json(), file, body.size, allowance)
    held = json.loads(answer.body)
    if answer.said["is_feed"]:
        return Reading.from_json(held)
    announced = tuple(FeedAddress(**one) for one in held["announced"])
    return NoFeed(held["why"], announced, tuple(held["hubs"]), held["itself"])


def _answer(order: Message) -> Message:
    try:
        found = readings.read(order.body, Question.from_json(order.said))
        held = found.to_json() if isinstance(found, Reading) else asdict(found)
        return Message({"is_feed": isinstance(found, Reading)}, json.dumps(held).encode())
    except MemoryError:
        return _refused(TOO_LARGE)
    except Exception:  # noqa: BLE001 - the edge of a process: whatever is raised is about this feed
        return _refused(FATAL)


def _refused(why: str) -> Message:
    return Message({"is_feed": False}, json.dumps(asdict(NoFeed(why))).encode())


if __name__ == "__main__":
    os.nice(NICE)
    apart.serve(int(sys.argv[1]), int(sys.argv[2]), _answer)
