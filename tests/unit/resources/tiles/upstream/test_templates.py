"""URL templates of upstreams: placeholders, refusals and validators of tiles."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from resources.fetch.http import url_syntax
from resources.fetch.http.allowed_ips import build_guard
from resources.fetch.http.messages import Head
from resources.tiles import grid
from resources.tiles.errors import LayerError
from resources.tiles.tile_address import Tile
from resources.tiles.upstream.templates import TileUrlTemplate, TileValidators, tile_version

HOST = "https://tiles.example.org"
TILE = Tile("osm", 3, 5, 2)


@pytest.mark.parametrize(
    ("template", "url"),
    [
        ("{q}.jpeg?g=1", "121.jpeg?g=1"),
        ("{z}/{x}/{y}{r}.png", "3/5/2.png"),
        ("{z}/{x}/{y}.{format}", "3/5/2.png"),
        ("?z={z}&x={x}&y={y}&key=a%2Fb", "?z=3&x=5&y=2&key=a%2Fb"),
    ],
)
def test_each_placeholder_stands_for_its_part_of_the_tile(template: str, url: str) -> None:
    assert TileUrlTemplate.parse(f"{HOST}/{template}").url(TILE) == f"{HOST}/{url}"


def test_dense_tiles_and_other_formats_are_asked_for_where_the_server_has_them() -> None:
    template = TileUrlTemplate.parse(f"{HOST}/{{z}}/{{x}}/{{y}}{{r}}.{{format}}")
    assert template.has_scale
    assert template.url(Tile("osm", 3, 5, 2, 2, "webp")) == f"{HOST}/3/5/2@2x.webp"
    assert not TileUrlTemplate.parse(f"{HOST}/{{z}}/{{x}}/{{y}}.png").has_scale


@pytest.mark.parametrize(
    ("named", "expected"),
    [("{s}", {"a", "b", "c"}), ("{s:1234}", {"1", "2", "3", "4"}), ("{s:mt0,mt1}", {"mt0", "mt1"})],
)
def test_subdomains_take_turns_and_each_tile_keeps_its_own(named: str, expected: set[str]) -> None:
    template = TileUrlTemplate.parse(f"https://{named}.example.org/{{z}}/{{x}}/{{y}}.png")
    row = [template.url(Tile("osm", 5, x, 7)) for x in range(12)]
    assert {url_syntax.parse_target(url).host.partition(".")[0] for url in row} == expected
    assert row == [template.url(Tile("osm", 5, x, 7)) for x in range(12)]
    assert template.host == "example.org"


@given(st.integers(1, 22).flatmap(lambda z: st.tuples(st.just(z), *[st.integers(0, 2**z - 1)] * 2)))
def test_no_two_tiles_have_one_address(address: tuple[int, int, int]) -> None:
    z, x, y = address
    xyz, tms, quadkey = (TileUrlTemplate.parse(f"{HOST}/{each}") for each in ("{z}/{x}/{y}", "{z}/{x}/{-y}", "{q}"))
    tile = Tile("osm", z, x, y)
    assert xyz.url(tile).removeprefix(f"{HOST}/") == f"{z}/{x}/{y}"
    south = int(tms.url(tile).rpartition("/")[2])
    assert south + y == 2**z - 1
    digits = quadkey.url(tile).rpartition("/")[2]
    assert (len(digits), int(digits, 4)) == (z, grid.tile_key(x, y))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("", "does not say which tile"),
        ("ftp://a.example/{z}/{x}/{y}", "begins with http"),
        (f"{HOST}/{{z}}/{{x}}.png", "does not say which tile"),
        (f"{HOST}/tile.png", "does not say which tile"),
        (f"{HOST}/{{z}}/{{x}}/{{y}}?k={{key}}", r"\{key\}, which means nothing here"),
        (f"{HOST}/{{z}}/{{x}}/{{y}}/{{a-c}}", r"\{a-c\}"),
        (f"{HOST}/{{z}}/{{x}}/{{y}}/{{", "brace"),
        ("https://user:secret@a.example/{z}/{x}/{y}", "user or password"),
        ("https://{z}.example/{z}/{x}/{y}", "in its host"),
        ("https://{s:}.example/{z}/{x}/{y}", "After"),
        ("https://{s:a.b,c}.example/{z}/{x}/{y}", "After"),
        ("https://{s}.{s:12}.example/{z}/{x}/{y}", "two different"),
        (f"{HOST}/{{z}}/{{x}}/{{y}}#{{r}}", "fragment"),
        (f"{HOST}/{{z}}\r\nHost: b/{{x}}/{{y}}", "spaces or control"),
        ("https://127.1/{z}/{x}/{y}", "cannot be fetched"),
        ("https://a..example/{z}/{x}/{y}", "cannot be fetched: a malformed host"),
        ("https://a.example:0/{z}/{x}/{y}", "impossible port"),
        (f"{HOST}/{{z}}/{{x}}/{{y}}?{'k' * 1960}", "more than 2,000 bytes"),
        (f"{HOST}/{{z}}/{{x}}/{{y}}?{'k' * 3000}", "more than 2,000 characters"),
        (f"{HOST}/{{z}}/{{x}}/{{y}}?{'é' * 1000}", "more than 2,000 bytes"),
    ],
)
def test_a_bad_template_is_told_why(template: str, message: str) -> None:
    with pytest.raises(LayerError, match=message):
        TileUrlTemplate.parse(template)


@given(st.text() | st.text(alphabet="{}zxyqsr-:/.@#htps ab1"))
def test_any_text_is_a_template_or_a_clear_error(text: str) -> None:
    for candidate in (text, f"https://{text}/{{z}}/{{x}}/{{y}}", f"{HOST}/{{z}}/{{x}}/{{y}}{text}"):
        try:
            template = TileUrlTemplate.parse(candidate)
        except LayerError:
            continue
        url_syntax.parse_target(template.url(TILE))
        assert template.host


@pytest.mark.parametrize(
    ("host", "exceptions", "refused"),
    [
        ("tiles.example.org", [], None),
        ("tiles.example.org:81", [], "port 81"),
        ("127.0.0.1:9000", [], "port 9000"),
        ("127.0.0.1", [], "not global"),
        ("[::1]:9000", ["[::1]:9000"], None),
        ("127.0.0.1:9000", ["127.0.0.1:9000"], None),
        ("127.0.0.2:9000", ["127.0.0.1:9000"], "not global"),
    ],
)
def test_a_refusal_of_every_tile_is_known_beforehand(host: str, exceptions: list[str], refused: Any) -> None:
    found = TileUrlTemplate.parse(f"http://{host}/{{z}}/{{x}}/{{y}}").refusal(build_guard([80, 443], exceptions))
    assert found is None if refused is None else found is not None and refused in found


URL = "https://tiles.example.org/1/0/0.png"
SECOND = 1_000_000


def head(**fields: str | None) -> Head:
    return Head(200, URL, CIMultiDict(), etag=fields.get("etag"), last_modified=fields.get("last_modified"))


@pytest.mark.parametrize("fields", [{"etag": '"a"'}, {"etag": 'W/"é"', "last_modified": "yesterday"}])
def test_validators_come_back_from_their_note_as_they_were(fields: dict[str, str | None]) -> None:
    known = TileValidators.of(head(**fields))
    assert TileValidators.read(known.note()) == known


def test_a_tile_without_validators_has_no_note() -> None:
    assert TileValidators.of(head()).note() == ""


@pytest.mark.parametrize("note", ["", "{", "[]", "null", "7", '{"url": "x"}', '"text"'])
def test_other_notes_are_none(note: str) -> None:
    assert TileValidators.read(note) is None


@pytest.mark.parametrize(
    ("url", "belongs"),
    [
        (URL, True),
        ("HTTPS://Tiles.example.org:443/1/0/0.png", True),
        ("https://tiles.example.org/1/0/1.png", False),
        ("https://tiles.example.org/other/1/0/0.png", False),
        ("http://tiles.example.org/1/0/0.png", False),
        ("not a url", False),
    ],
)
def test_validators_are_of_one_address_alone(url: str, belongs: bool) -> None:
    assert TileValidators(URL, '"a"', None).belong_to(url) is belongs


def test_a_304_brings_new_validators_or_leaves_the_old_ones() -> None:
    known = TileValidators(URL, '"a"', "yesterday")
    assert known.renewed(head()) == known
    assert known.renewed(head(etag='W/"b"')) == TileValidators(URL, 'W/"b"', "yesterday")


@pytest.mark.parametrize(
    ("started_at", "version", "expected"),
    [
        (100.0, 50 * SECOND, 50 * SECOND),
        (100.0, 100 * SECOND, 100 * SECOND),
        (100.0, 101 * SECOND, 100 * SECOND),
        (100.0, 111 * SECOND, 111 * SECOND),
    ],
    ids=["changed before", "changed at once", "changed while it came", "changed in the future"],
)
def test_what_was_asked_for_before_a_change_is_older_than_it(started_at: float, version: int, expected: int) -> None:
    assert tile_version(version, started_at, now=110.0) == expected
