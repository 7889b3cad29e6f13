"""Prepares upstream tiles: what is asked of the other server, and what becomes of its answer.

Sends nothing itself: the fetcher does, between `fetch` and `prepare`.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from django.db import Error as DatabaseError

from resources.fetching.conf import fast_limits, slow_limits
from resources.fetching.outcomes import Failed, Failure, Fetched, NotModified
from resources.fetching.requests import Fetch
from resources.tiles import layers
from resources.tiles.layers import LayerView
from resources.tiles.preparing import empty_tile
from resources.tiles.tile import Tile
from retry import connections, contents
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument

from . import conf, images
from .errors import ImageError
from .images import Picture
from .keeping import EMPTY_SECONDS, Validators, version_of

ACCEPT = "image/png, image/jpeg, image/webp, image/gif;q=0.5"
"""The same for all formats that are asked for: one address is fetched once, whoever wants it."""

_NOT_THERE = frozenset({404, 410})

_DETAILS = {
    Failure.REFUSED: "The server of these tiles is one that this site does not fetch from.",
    Failure.OURS: "This site cannot reach the server of these tiles.",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """One tile, its layer as it is now, and the address that it is fetched from."""

    url: str
    tile: Tile
    layer: LayerView

    @classmethod
    def read(cls, arguments: tuple[Argument, ...]) -> "Wanted":
        """From the arguments of the work. Raises PreparationError when the layer has no such tile any more."""
        url, slug, z, x, y, scale, image_format = arguments
        tile = Tile(str(slug), int(z), int(x), int(y), int(scale), str(image_format))
        try:
            layer = layers.layer_snapshot(tile.layer)
        except DatabaseError as error:
            raise PreparationError("The layers cannot be read now.") from error
        if layer is None or layer.upstream is None or not layer.has_scale(tile.scale):
            raise PreparationError("There is no such tile any more.", status=404)
        return cls(str(url), tile, layer)

    def version(self, started_at: float) -> int:
        """That of a tile which was asked for at `started_at`; none where its address is not the layer's any more."""
        assert self.layer.upstream is not None
        if self.layer.upstream.url(self.tile) != self.url:
            return 0
        return version_of(self.layer.version, started_at, time.time())


class FetchTile:
    """The fetcher's task `resources.fetch_tile`. Its arguments are the address and the tile's own."""

    obeys_robots = False
    """An admin named this server. Robots that find their own way are what robots.txt is for."""

    def fetch(self, *arguments: Argument) -> Fetch:
        """The request, with the validators of the tile that is stored. Raises PreparationError, StoreUnavailable."""
        wanted = Wanted.read(arguments)
        known = _validators(wanted)
        return Fetch(
            wanted.url,
            kind="tile",
            headers={"Accept": ACCEPT},
            etag=known.etag if known else None,
            last_modified=known.last_modified if known else None,
            limits=replace(fast_limits(), max_body_bytes=conf.max_tile_bytes()),
            slow_limits=replace(slow_limits(), max_body_bytes=conf.max_tile_bytes()),
        )

    def prepare(self, outcome: Fetched | NotModified | Failed, *arguments: Argument) -> Mapping[str, Prepared]:
        """The tile by its content key. Leaves the body's file to the fetcher. Raises PreparationError."""
        wanted = Wanted.read(arguments)
        match outcome:
            case Fetched(head=head) if head.status == 204:
                prepared = _empty(wanted, outcome)
            case Fetched():
                prepared = _fetched(wanted, outcome)
            case NotModified():
                prepared = _unchanged(wanted, outcome)
            case Failed(failure=Failure.PERMANENT, status=status) if status in _NOT_THERE:
                prepared = _empty(wanted, outcome)
            case Failed():
                raise _failure(outcome)
        return {wanted.tile.content_key: prepared}


TASK = FetchTile()


def _validators(wanted: Wanted) -> Validators | None:
    """By what the tile that is stored can be asked about; None when it has to be sent anew."""
    held = connections.run_patiently(contents.read(wanted.tile.content_key, with_body=False))
    known = Validators.read(held.note) if held else None
    return known if known and known.belong_to(wanted.url) else None


def _fetched(wanted: Wanted, outcome: Fetched) -> Prepared:
    try:
        picture = images.in_format(images.read(outcome.body.read(), wanted.tile.scale), wanted.tile.format)
    except ImageError as error:
        raise PreparationError(f"The server of these tiles sent {error}.") from error
    return _prepared(wanted, outcome, picture, Validators.of(outcome.head).note())


def _unchanged(wanted: Wanted, outcome: NotModified) -> Prepared:
    """The stored tile again, fresh again."""
    held = connections.run_patiently(contents.read(wanted.tile.content_key))
    known = Validators.read(held.note) if held else None
    if held is None or known is None:  # evicted meanwhile
        raise PreparationError("The tile was not kept. Ask again.", status=503, retry_seconds=0)
    picture = Picture(held.body, held.content_type)
    return _prepared(wanted, outcome, picture, known.renewed(outcome.head).note())


def _prepared(wanted: Wanted, outcome: Fetched | NotModified, picture: Picture, note: str) -> Prepared:
    layer = wanted.layer
    fresh_seconds = outcome.head.freshness.fresh_seconds(
        time.time(), least=layer.fresh_seconds, most=layer.most_fresh_seconds, otherwise=layer.fresh_seconds
    )
    return Prepared(
        body=picture.body,
        content_type=picture.content_type,
        fresh_seconds=fresh_seconds,
        stale_seconds=layer.stale_seconds,
        client_seconds=layer.client_seconds,
        version=wanted.version(outcome.timing.started_at),
        note=note,
    )


def _empty(wanted: Wanted, outcome: Fetched | Failed) -> Prepared:
    """The shared empty tile: the server has none here."""
    return Prepared(
        body=empty_tile(wanted.tile),
        content_type=wanted.tile.content_type,
        fresh_seconds=min(wanted.layer.fresh_seconds, EMPTY_SECONDS),
        stale_seconds=wanted.layer.stale_seconds,
        client_seconds=wanted.layer.client_seconds,
        version=wanted.version(outcome.timing.started_at),
    )


def _failure(outcome: Failed) -> PreparationError:
    """What clients are told. Holds no address: it may have a key, or be one of a private network."""
    status = 504 if outcome.failure is Failure.TOO_SLOW else 502
    detail = _DETAILS.get(outcome.failure, f"The server of these tiles: {outcome.detail}.")
    return PreparationError(detail, status=status, retry_seconds=outcome.retry_after_seconds or None)
