"""The source of `/api/entries/stream` in the waiting instance, which has no models: it asks main by its own front.

One request is for all clients of a selection at one place. Imports no models.
"""

import json
from urllib.parse import urlencode

from retry.conf import conf
from retry.responses import ClientReply, problem_reply
from retry.rooms import FrontClient
from retry.streams import EndOfStreamError, EventPage

from .changes.positions import CHANGE_CHANNEL

ENTRIES_PATH = "/api/entries"
MAX_STREAMED_CHANGES = 100
NOW = "now"
SELECTIONS = ("feed", "category")


class ChangeStream:
    """Reads pages of the API. A place is its query, with the cursor; an event has the changes up to its id."""

    channel = CHANGE_CHANNEL

    def __init__(self) -> None:
        self._front: FrontClient | None = None

    async def begin(self, given: dict[str, str], last_id: str, host: str) -> str | ClientReply:
        chosen = {name: given[name] for name in SELECTIONS if given.get(name)}
        status, body = await self._ask(chosen, last_id or given.get("changed_since") or NOW, host, limit=1)
        if status == 200:
            cursor = last_id or given.get("changed_since") or json.loads(body)["cursor"]
            return write_place(chosen, cursor, host)
        detail = json.loads(body)["detail"] if 400 <= status < 500 else "The entries cannot be read now."
        return problem_reply(status if status < 500 else 503, detail, wait_seconds=None if status < 500 else 1)

    async def read(self, place: str) -> EventPage:
        chosen, cursor, host = json.loads(place)
        status, body = await self._ask(chosen, cursor, host, limit=MAX_STREAMED_CHANGES)
        if status != 200:
            raise EndOfStreamError
        return write_event(body, chosen, host)

    def event_id(self, place: str) -> str:
        return str(json.loads(place)[1])

    async def close(self) -> None:
        if self._front:
            await self._front.close()
            self._front = None

    async def _ask(self, chosen: dict[str, str], cursor: str, host: str, *, limit: int) -> tuple[int, bytes]:
        """Returns the status and the body; 503 where main does not answer."""
        if self._front is None:  # it belongs to the event loop
            self._front = FrontClient(conf().RETRY_FRONT)
        query = urlencode({**chosen, "changed_since": cursor, "limit": limit})
        return await self._front.read(host, f"{ENTRIES_PATH}?{query}")


STREAM = ChangeStream()


def write_place(chosen: dict[str, str], cursor: str, host: str) -> str:
    return json.dumps([chosen, cursor, host], sort_keys=True)


def write_event(body: bytes, chosen: dict[str, str], host: str) -> EventPage:
    """Writes a page of the API as one event. Its JSON has no line breaks of its own."""
    page = json.loads(body)
    cursor = str(page["cursor"])
    text = f"id: {cursor}\n\n".encode()
    if page["changes"]:
        text = b"event: changes\nid: " + cursor.encode() + b"\ndata: " + body + b"\n\n"
    return EventPage(text, write_place(chosen, cursor, host), has_more=bool(page["has_more"]))
