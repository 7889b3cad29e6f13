"""Reads feeds in child processes, which have no secrets and bounded memory and time: documents are not trusted.

The children import nothing of Django. `python -m feeds.scan.reader_process BYTES PARENT` starts one.
"""

import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from queue import Empty, LifoQueue
from typing import Any

from resources import sandbox
from resources.fetch.http.messages import Body
from resources.sandbox import ChildAllowance, ChildMessage, ChildProcess

from .. import readings
from ..errors import FeedError
from ..parser.discovery import FeedAddress
from ..readings import BodyToRead, FeedReading, NoFeed

READER_NICENESS = 5
"""Hundreds of feeds may come at once: processes that answer clients go first."""
READER_FAILED, READING_TOO_LONG = "The feed cannot be read: the reader failed.", "The feed takes too long to read."
READING_TOO_LARGE = "The feed takes more memory to read than the limit for one feed."


class ReadersBusyError(FeedError):
    """All readers are busy with other feeds. Nothing is wrong with this one."""


class ChildPool:
    """A pool of child processes of a module, each started when needed. The one that read last reads next.

    A child ends after `idle_seconds` without work. `lost` is called for each one that ended over a document, with
    "died" or "too long".
    """

    def __init__(self, module: str, number: int, idle_seconds: float, lost: Callable[[str], object]) -> None:
        self._lost = lost
        self._free: LifoQueue[ChildProcess] = LifoQueue()
        self._all = [ChildProcess(module, idle_seconds) for _ in range(number)]
        for child in reversed(self._all):
            self._free.put(child)

    def ask(self, values: Mapping[str, Any], body: Body, allowance: ChildAllowance) -> ChildMessage:
        """Has a body read. Waits for a free child as long as reading may take. A lost child is started anew.

        Raises ReadersBusyError, ChildTimeoutError and ChildDiedError.
        """
        try:
            child = self._free.get(timeout=allowance.seconds)
        except Empty as error:
            raise ReadersBusyError("All readers are busy.") from error
        try:
            with io.BytesIO(body.data or b"") if body.path is None else body.path.open("rb") as file:
                return child.ask(values, file, body.size, allowance)
        except sandbox.ChildDiedError as error:
            self._lost("too long" if isinstance(error, sandbox.ChildTimeoutError) else "died")
            raise
        finally:
            self._free.put(child)

    def close(self) -> None:
        """Ends the children. They start again when needed."""
        for child in self._all:
            child.close()


class ReaderPool(ChildPool):
    """A pool of reader processes."""

    def __init__(self, number: int, idle_seconds: float, lost: Callable[[str], object]) -> None:
        super().__init__("feeds.scan.reader_process", number, idle_seconds, lost)

    def read(self, body: Body, question: BodyToRead, allowance: ChildAllowance) -> FeedReading | NoFeed:
        """Reads a body. Raises ReadersBusyError. A document that kills its reader is no feed."""
        try:
            answer = self.ask(question.to_json(), body, allowance)
        except sandbox.ChildTimeoutError:
            return NoFeed(READING_TOO_LONG)
        except sandbox.ChildDiedError:
            return NoFeed(READER_FAILED)
        held = json.loads(answer.body)
        if answer.values["is_feed"]:
            return FeedReading.from_json(held)
        announced = tuple(FeedAddress(**one) for one in held["announced"])
        return NoFeed(held["why"], announced, tuple(held["hubs"]), held["itself"])


def _answer_question(order: ChildMessage) -> ChildMessage:
    try:
        found = readings.read_feed_body(order.body, BodyToRead.from_json(order.values))
        held = found.to_json() if isinstance(found, FeedReading) else asdict(found)
        return ChildMessage({"is_feed": isinstance(found, FeedReading)}, json.dumps(held).encode())
    except MemoryError:
        return _refuse_document(READING_TOO_LARGE)
    except Exception:  # noqa: BLE001 - the edge of a process: any error is about this feed
        return _refuse_document(READER_FAILED)


def _refuse_document(why: str) -> ChildMessage:
    return ChildMessage({"is_feed": False}, json.dumps(asdict(NoFeed(why))).encode())


if __name__ == "__main__":
    os.nice(READER_NICENESS)
    sandbox.serve_parent(int(sys.argv[1]), int(sys.argv[2]), _answer_question)
