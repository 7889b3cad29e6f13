"""The questions of the steady client: each kind of content cached and cold, and changes."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import requests

from ..flows.slow.slow_content import SlowContent
from .origins import ENTRIES, Origin, file_at, tile_at
from .promises import Promises
from .steady import Kind, Question

CACHED = 20
"""The number of addresses of each kind that are requested repeatedly."""
LINE_ZOOM, LINE_ROW, LINE_COLUMN = 14, 8187, 4200
"""The place of the line. All of its tiles look alike: one of them is the expected body of the others."""
UPSTREAM_ZOOM = 12
SLOW_SECONDS, SLOW_BYTES = 0.1, 2000
URLS_OF_A_LIST = 3
PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Questions:
    """All kinds of questions to one site. `callbacks` are the addresses for pings of the feeds of `well`, by path."""

    base_url: str
    well: Origin
    promises: Promises
    token: str
    signed: Mapping[str, str]
    callbacks: Mapping[str, str]

    def kinds(self, files: Mapping[str, Sequence[str]]) -> list[Kind]:
        """`files` are the URLs of files by their origin: each is requested once, and a few again and again."""
        return [*self._cached(files["well"][:CACHED]), *self._cold(files), *self._changing()]

    def _cached(self, files: Sequence[str]) -> Iterator[Kind]:
        tile = self._line_tile()
        yield Kind("cached tile", 5, lambda number: Question(line_tile(number % CACHED), tile.__eq__))
        yield Kind("cached file", 3, lambda number: self._file(files[number % len(files)]))
        yield Kind("feeds", 2, lambda _: self._feeds())

    def _cold(self, files: Mapping[str, Sequence[str]]) -> Iterator[Kind]:
        tile = self._line_tile()
        yield Kind("cold tile", 0.7, lambda number: Question(line_tile(CACHED + number), tile.__eq__))
        yield Kind("slow content", 0.7, slow)
        yield Kind("cold tile of another server", 0.5, lambda number: upstream("of-well", number))
        yield Kind("cold tile of a server that leaves", 0.5, lambda number: upstream("of-leaving", number))
        for name, urls in files.items():
            yield Kind(f"cold file of {name}", 0.5, partial(self._cold_file, urls))

    def _changing(self) -> Iterator[Kind]:
        yield Kind("ping", 0.5, self._ping)
        yield Kind("list of URLs", 0.5, self._list)

    def _line_tile(self) -> bytes:
        answer = requests.get(self.base_url + line_tile(-1), timeout=PATIENCE_SECONDS)
        answer.raise_for_status()
        return answer.content

    def _file(self, url: str) -> Question:
        return Question(self.signed[url], file_at("/files" + url.partition("/files")[2]).__eq__)

    def _cold_file(self, urls: Sequence[str], number: int) -> Question:
        return self._file(urls[(CACHED + number) % len(urls)])

    def _feeds(self) -> Question:
        entries = len(self.callbacks) * len(ENTRIES)
        hears = partial(self.promises.hear_feeds, origin=self.well, entries=entries)
        return Question("/feeds/category/chaos.json?limit=200", hears)

    def _ping(self, number: int) -> Question:
        path = list(self.callbacks)[number % len(self.callbacks)]
        edition, sent = self.well.edit(path), time.monotonic()
        return Question(
            self.callbacks[path],
            lambda _: self.promises.hear_ping(path, edition, sent),
            method="POST",
            data=f"url={self.well.url}{path}".encode(),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )

    def _list(self, number: int) -> Question:
        urls = [f"{self.well.url}/files/listed/{number}/{each}" for each in range(URLS_OF_A_LIST)]
        return Question(
            "/api/resources",
            self.promises.hear_list,
            method="POST",
            data=json.dumps({"urls": urls}).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"},
        )


def line_tile(number: int) -> str:
    return f"/tiles/line/{LINE_ZOOM}/{LINE_COLUMN + number}/{LINE_ROW}.png"


def slow(number: int) -> Question:
    """Content that is prepared by a painter, with bytes of its own."""
    wanted = SlowContent(f"steady{number}", SLOW_SECONDS, SLOW_BYTES)
    address = f"/slow/{wanted.name}?seconds={wanted.seconds}&size={wanted.size}&kind=steady"
    return Question(address, wanted.body.__eq__)


def upstream(slug: str, number: int) -> Question:
    row, column = divmod(number, 2**UPSTREAM_ZOOM)
    place = f"/{UPSTREAM_ZOOM}/{column}/{row}.png"
    return Question(f"/tiles/{slug}{place}", tile_at(place).__eq__)
