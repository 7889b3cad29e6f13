"""The fetch task of upstream tiles: makes the request to the other server, and a tile of its answer.

Sends nothing itself: the fetcher does, between `fetch` and `prepare`. Also decides the version and the validators
of a tile, and puts upstream layers into service.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from django.conf import settings
from django.db import Error as DatabaseError

from resources.fetch.conf import fast_limits, slow_limits
from resources.fetch.http.messages import Failure, Fetched, FetchFailed, FetchRequest, NotModified
from retry import contents, stores
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument

from ...image_formats import UPSTREAM_FORMATS
from .. import layers
from ..errors import UpstreamImageError
from ..layers import LayerView
from ..tile_address import Tile
from ..work import empty_tile
from . import images
from .images import UpstreamImage
from .templates import MAX_EMPTY_FRESH_SECONDS, TileValidators, tile_version

ACCEPTED_TYPES = ", ".join(
    each.media_type if each.upstream_weight == 1 else f"{each.media_type};q={each.upstream_weight}"
    for each in UPSTREAM_FORMATS.values()
)
"""The same for all formats of our tiles: one address is fetched once for all of them."""

_NOT_FOUND_STATUSES = frozenset({404, 410})

_FAILURE_DETAILS = {
    Failure.REFUSED: "This site does not fetch from the server of these tiles.",
    Failure.OURS: "This site cannot reach the server of these tiles.",
}


@dataclass(frozen=True, slots=True)
class UpstreamTile:
    """One tile, its layer as it is now, and the address to fetch it from."""

    url: str
    tile: Tile
    layer: LayerView

    @classmethod
    def read(cls, arguments: tuple[Argument, ...]) -> "UpstreamTile":
        """Reads the arguments of the work. Raises PreparationError if the layer no longer has such a tile."""
        url, slug, z, x, y, scale, image_format = arguments
        tile = Tile(str(slug), int(z), int(x), int(y), int(scale), str(image_format))
        try:
            layer = layers.layer_snapshot(tile.layer)
        except DatabaseError as error:
            raise PreparationError("The layers cannot be read now.") from error
        if layer is None or layer.upstream is None or not layer.has_scale(tile.scale):
            raise PreparationError("The tile no longer exists.", status=404)
        return cls(str(url), tile, layer)

    def version(self, started_at: float) -> int:
        """Returns the version of a tile requested at `started_at`; 0 if the layer's addresses have changed since."""
        assert self.layer.upstream is not None
        if self.layer.upstream.url(self.tile) != self.url:
            return 0
        return tile_version(self.layer.version, started_at, time.time())


class UpstreamFetchTask:
    """The fetcher's task `resources.fetch_tile`. Its arguments are the address and the tile's own."""

    obeys_robots = False
    """An admin named this server. robots.txt is for robots that find their own way."""
    sends_secrets = True

    def fetch(self, *arguments: Argument) -> FetchRequest:
        """Returns the request, with the stored tile's validators. Raises PreparationError, StoreUnavailable."""
        wanted = UpstreamTile.read(arguments)
        known = _load_validators(wanted)
        return FetchRequest(
            wanted.url,
            kind="tile",
            headers={"Accept": ACCEPTED_TYPES},
            etag=known.etag if known else None,
            last_modified=known.last_modified if known else None,
            limits=replace(fast_limits(), max_body_bytes=settings.FETCH_TILE_MAX_BYTES),
            slow_limits=replace(slow_limits(), max_body_bytes=settings.FETCH_TILE_MAX_BYTES),
        )

    def prepare(self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument) -> Mapping[str, Prepared]:
        """Returns the tile by its content key. Leaves the body's file to the fetcher. Raises PreparationError."""
        wanted = UpstreamTile.read(arguments)
        match outcome:
            case Fetched(head=head) if head.status == 204:
                prepared = _prepare_empty(wanted, outcome)
            case Fetched():
                prepared = _prepare_fetched(wanted, outcome)
            case NotModified():
                prepared = _prepare_unchanged(wanted, outcome)
            case FetchFailed(failure=Failure.PERMANENT, status=status) if status in _NOT_FOUND_STATUSES:
                prepared = _prepare_empty(wanted, outcome)
            case FetchFailed():
                raise _preparation_error(outcome)
        return {wanted.tile.content_key: prepared}


TASK = UpstreamFetchTask()


def _load_validators(wanted: UpstreamTile) -> TileValidators | None:
    """Returns the stored tile's validators; None if the tile has to be sent anew."""
    held = stores.run_patiently(contents.read_content(wanted.tile.content_key, with_body=False))
    known = TileValidators.read(held.note) if held else None
    return known if known and known.belong_to(wanted.url) else None


def _prepare_fetched(wanted: UpstreamTile, outcome: Fetched) -> Prepared:
    try:
        picture = images.convert_image(
            images.read_tile_image(outcome.body.read(), wanted.tile.scale), wanted.tile.format
        )
    except UpstreamImageError as error:
        raise PreparationError(f"The server of these tiles sent {error}.") from error
    return _prepare_image(wanted, outcome, picture, TileValidators.of(outcome.head).note())


def _prepare_unchanged(wanted: UpstreamTile, outcome: NotModified) -> Prepared:
    """Returns the stored tile, fresh again."""
    held = stores.run_patiently(contents.read_content(wanted.tile.content_key))
    known = TileValidators.read(held.note) if held else None
    if held is None or known is None:  # evicted meanwhile
        raise PreparationError("The tile was not stored. Request it again.", status=503, retry_seconds=0)
    picture = UpstreamImage(held.body, held.content_type)
    return _prepare_image(wanted, outcome, picture, known.renewed(outcome.head).note())


def _prepare_image(wanted: UpstreamTile, outcome: Fetched | NotModified, picture: UpstreamImage, note: str) -> Prepared:
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


def _prepare_empty(wanted: UpstreamTile, outcome: Fetched | FetchFailed) -> Prepared:
    """Returns the shared empty tile: the server has none here."""
    return Prepared(
        body=empty_tile(wanted.tile),
        content_type=wanted.tile.content_type,
        fresh_seconds=min(wanted.layer.fresh_seconds, MAX_EMPTY_FRESH_SECONDS),
        stale_seconds=wanted.layer.stale_seconds,
        client_seconds=wanted.layer.client_seconds,
        version=wanted.version(outcome.timing.started_at),
    )


def _preparation_error(outcome: FetchFailed) -> PreparationError:
    """Returns the error for clients. It holds no address: that may have a key, or be of a private network."""
    status = 504 if outcome.failure is Failure.TOO_SLOW else 502
    detail = _FAILURE_DETAILS.get(outcome.failure, f"The server of these tiles: {outcome.detail}.")
    return PreparationError(detail, status=status, retry_seconds=outcome.retry_after_seconds or None)
