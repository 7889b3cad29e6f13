"""Requests to another tile server, and the results of its answers."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict
from pytest_django import Settings

from resources.fetch.http.messages import Body, Failure, Fetched, FetchFailed, Head, NotModified, OutcomeTiming
from resources.fetch.task import FetchTask
from resources.tiles.models import Layer
from resources.tiles.render import painter
from resources.tiles.tile_address import Tile
from resources.tiles.upstream.fetch_task import TASK
from retry import contents, stores
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument
from tests.conftest import RedisServers
from tests.unit.resources.conftest import Load, LoadUpstream, Store, image

URL = "https://tiles.example.org/3/5/2.png"
PNG, JPEG = image(), image(image_format="JPEG")
TILE = Tile("osm", 3, 5, 2)
task: FetchTask = TASK

pytestmark = pytest.mark.usefixtures("redis_servers")


def arguments(tile: Tile = TILE, url: str = URL) -> tuple[Argument, ...]:
    return url, tile.layer, tile.z, tile.x, tile.y, tile.scale, tile.format


def head(status: int = 200, *, etag: str | None = None, url: str = URL, **fields: str) -> Head:
    named = CIMultiDict({name.replace("_", "-"): value for name, value in fields.items()})
    return Head(status, url, named, received_at=time.time(), etag=etag)


def timing(ago_seconds: float = 0) -> OutcomeTiming:
    return OutcomeTiming(time.time() - ago_seconds, 0.1)


def body(data: bytes = PNG) -> Body:
    return Body(len(data), "", data=data)


def fetched(data: bytes = PNG, status: int = 200, *, ago_seconds: float = 0, etag: str | None = None) -> Fetched:
    return Fetched(head(status, etag=etag), body(data), timing(ago_seconds))


def failed(failure: Failure, status: int | None = None, **given: Any) -> FetchFailed:
    return FetchFailed(failure, f"answered {status}", timing(), status, **given)


def prepare(outcome: Fetched | NotModified | FetchFailed, tile: Tile = TILE, url: str = URL) -> Prepared:
    contents = task.prepare(outcome, *arguments(tile, url))
    assert isinstance(contents, Mapping)
    [(key, prepared)] = contents.items()
    assert key == tile.content_key
    return prepared


def test_a_tile_is_kept_as_it_came_with_its_own_type(upstream: LoadUpstream) -> None:
    layer = upstream(client_seconds=30, stale_seconds=900)
    prepared = prepare(fetched(JPEG))
    assert (prepared.body, prepared.content_type) == (JPEG, "image/jpeg")
    assert (prepared.client_seconds, prepared.stale_seconds) == (30, 900)
    assert prepared.version == layer.version


def test_a_tile_in_a_file_is_left_where_it_is(upstream: LoadUpstream, tmp_path: Path) -> None:
    upstream()
    path = tmp_path / "tile"
    path.write_bytes(PNG)
    assert prepare(Fetched(head(), Body(len(PNG), "", path=path), timing())).body == PNG
    assert path.exists()


def test_webp_is_made_only_where_it_is_asked_for_and_did_not_come(upstream: LoadUpstream) -> None:
    upstream()
    webp = image(image_format="WEBP")
    asked = Tile("osm", 3, 5, 2, format="webp")
    assert prepare(fetched(PNG), asked).content_type == "image/webp"
    assert prepare(fetched(webp), asked).body == webp
    assert (prepare(fetched(webp)).body, prepare(fetched(webp)).content_type) == (webp, "image/webp")


@pytest.mark.parametrize(
    ("fields", "fresh_seconds"),
    [
        ({}, 100),
        ({"Cache_Control": "max-age=5"}, 100),
        ({"Cache_Control": "max-age=99999"}, 1000),
        ({"Cache_Control": "max-age=500", "Age": "200"}, 300),
        ({"Last_Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}, 1000),
    ],
)
def test_freshness_is_bounded_by_layers(upstream: LoadUpstream, fields: dict[str, str], fresh_seconds: float) -> None:
    upstream(fresh_seconds=100, most_fresh_seconds=1000)
    outcome = Fetched(head(**fields), body(), timing())  # type: ignore[arg-type]
    assert prepare(outcome).fresh_seconds == pytest.approx(fresh_seconds, abs=2)


@pytest.mark.parametrize(
    "outcome",
    [failed(Failure.PERMANENT, 404), failed(Failure.PERMANENT, 410), fetched(b"", 204)],
    ids=["404", "410", "204"],
)
def test_a_missing_tile_is_the_empty_one_for_a_while(upstream: LoadUpstream, outcome: Fetched | FetchFailed) -> None:
    upstream(fresh_seconds=100)
    prepared = prepare(outcome)
    assert prepared.body == painter.encode_empty_tile(1, "png")
    assert (prepared.content_type, prepared.fresh_seconds, prepared.note) == ("image/png", 100, "")
    Layer.objects.update(fresh_seconds=10_000_000, most_fresh_seconds=10_000_000)
    assert prepare(outcome).fresh_seconds == 86_400


def test_the_empty_tile_takes_no_room(upstream: LoadUpstream, store: Store, redis_servers: RedisServers) -> None:
    upstream()
    store(prepare(failed(Failure.PERMANENT, 404)))
    assert redis_servers.cache.client.hget(contents.content_name(TILE.content_key), "body") == b""
    held = stores.run_steps(contents.read_content(TILE.content_key))
    assert held
    assert held.body == painter.encode_empty_tile(1, "png")


@pytest.mark.parametrize(
    ("outcome", "status", "said"),
    [
        (failed(Failure.TOO_SLOW), 504, "answered None"),
        (failed(Failure.TRANSIENT, 500), 502, "answered 500"),
        (failed(Failure.TOO_BIG, 404), 502, "answered 404"),
        (failed(Failure.REFUSED), 502, "does not fetch from"),
        (failed(Failure.OURS), 502, "cannot reach"),
        (fetched(b"<html>Over quota</html>"), 502, "a page or XML, not an image"),
        (fetched(image(300)), 502, "300 × 300"),
        (fetched(PNG[:-20]), 502, "broken|cut short"),
    ],
    ids=lambda value: "" if isinstance(value, FetchFailed | Fetched) else str(value),
)
def test_other_outcomes_are_described_failures(
    upstream: LoadUpstream, outcome: Fetched | FetchFailed, status: int, said: str
) -> None:
    upstream()
    with pytest.raises(PreparationError, match=said) as caught:
        prepare(outcome)
    assert caught.value.status == status


def test_a_failure_names_no_address(upstream: LoadUpstream) -> None:
    upstream(template="https://tiles.example.org/{z}/{x}/{y}.png?key=secret")
    outcomes: list[Fetched | FetchFailed] = [*(failed(each, 500) for each in Failure), fetched(b"{}")]
    for outcome in outcomes:
        with pytest.raises(PreparationError) as caught:
            prepare(outcome)
        assert "example.org" not in caught.value.detail
        assert "secret" not in caught.value.detail


def test_what_a_server_asks_to_be_left_alone_for_is_obeyed(upstream: LoadUpstream) -> None:
    upstream()
    for asked, expected in ((120.0, 120.0), (0.0, None), (None, None)):
        with pytest.raises(PreparationError) as caught:
            prepare(failed(Failure.THROTTLED, 503, retry_after_seconds=asked))
        assert caught.value.retry_seconds == expected


def test_the_first_request_has_no_validators_and_names_what_is_understood(upstream: LoadUpstream) -> None:
    upstream()
    fetch = TASK.fetch(*arguments())
    assert (fetch.url, fetch.kind, fetch.is_conditional) == (URL, "tile", False)
    assert "image/png" in fetch.headers["Accept"]


@pytest.mark.parametrize(
    ("stored", "url"),
    [
        ({"etag": '"a"', "url": "https://cdn.example.org/3/5/2.png"}, URL),
        ({"etag": '"a"'}, "https://tiles.example.org/other/3/5/2.png"),
        ({}, URL),
    ],
    ids=["redirected", "another template", "none"],
)
def test_other_validators_are_not_sent(upstream: LoadUpstream, store: Store, stored: dict[str, str], url: str) -> None:
    upstream()
    named = {"url": URL, "etag": None, **stored}
    outcome = Fetched(Head(200, str(named["url"]), CIMultiDict(), time.time(), etag=named["etag"]), body(), timing())
    store(prepare(outcome))
    assert not TASK.fetch(*arguments(url=url)).is_conditional


def test_an_unchanged_tile_is_fresh_again(upstream: LoadUpstream, store: Store) -> None:
    layer = upstream(fresh_seconds=100, most_fresh_seconds=1000)
    store(prepare(fetched(JPEG, etag='"a"')))
    layer.expire()
    again = prepare(NotModified(head(304, Cache_Control="max-age=700"), timing()))
    assert (again.body, again.content_type) == (JPEG, "image/jpeg")
    assert again.fresh_seconds == pytest.approx(700, abs=2)
    assert again.version == Layer.objects.get().version
    store(again)
    assert TASK.fetch(*arguments()).etag == '"a"'


def test_an_unchanged_tile_that_was_evicted_meanwhile_is_asked_for_again(upstream: LoadUpstream) -> None:
    upstream()
    with pytest.raises(PreparationError) as caught:
        prepare(NotModified(head(304), timing()))
    assert (caught.value.status, caught.value.retry_seconds) == (503, 0)


def test_what_was_asked_for_before_the_layer_changed_or_elsewhere_is_stale(upstream: LoadUpstream) -> None:
    layer = upstream()
    assert prepare(fetched(ago_seconds=60)).version < layer.version
    assert prepare(fetched()).version == layer.version
    upstream(template="https://other.example.org/{z}/{x}/{y}.png")
    assert prepare(fetched()).version == 0


@pytest.mark.parametrize("change", ["gone", "switched off", "painted", "of one scale"])
def test_a_tile_that_the_layer_no_longer_has_is_404(upstream: LoadUpstream, load: Load, change: str) -> None:
    layer = upstream()
    tile = TILE
    match change:
        case "gone":
            layer.delete()
        case "switched off":
            Layer.objects.update(enabled=False)
        case "painted":
            load("osm")
        case _:
            upstream(template="https://tiles.example.org/{z}/{x}/{y}.png")
            tile = Tile("osm", 3, 5, 2, scale=2)
    for call in (lambda: TASK.fetch(*arguments(tile)), lambda: prepare(fetched(), tile)):
        with pytest.raises(PreparationError) as caught:
            call()
        assert caught.value.status == 404


def test_the_largest_tile_is_a_setting(upstream: LoadUpstream, settings: Settings) -> None:
    upstream()
    assert TASK.fetch(*arguments()).limits.max_body_bytes == 5_000_000
    settings.FETCH_TILE_MAX_BYTES = 1000
    fetch = TASK.fetch(*arguments())
    assert fetch.slow_limits
    assert (fetch.limits.max_body_bytes, fetch.slow_limits.max_body_bytes) == (1000, 1000)
