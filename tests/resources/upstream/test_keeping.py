import pytest
from multidict import CIMultiDict

from resources.fetching.outcomes import Head
from resources.upstream.keeping import Validators, version_of

URL = "https://tiles.example.org/1/0/0.png"
SECOND = 1_000_000


def head(**fields: str | None) -> Head:
    return Head(200, URL, CIMultiDict(), etag=fields.get("etag"), last_modified=fields.get("last_modified"))


@pytest.mark.parametrize("fields", [{"etag": '"a"'}, {"etag": 'W/"é"', "last_modified": "yesterday"}])
def test_validators_come_back_from_their_note_as_they_were(fields: dict[str, str | None]) -> None:
    known = Validators.of(head(**fields))
    assert Validators.read(known.note()) == known


def test_a_tile_without_validators_has_no_note() -> None:
    assert Validators.of(head()).note() == ""


@pytest.mark.parametrize("note", ["", "{", "[]", "null", "7", '{"url": "x"}', '"text"'])
def test_other_notes_are_none(note: str) -> None:
    assert Validators.read(note) is None


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
    assert Validators(URL, '"a"', None).belong_to(url) is belongs


def test_a_304_brings_new_validators_or_leaves_the_old_ones() -> None:
    known = Validators(URL, '"a"', "yesterday")
    assert known.renewed(head()) == known
    assert known.renewed(head(etag='W/"b"')) == Validators(URL, 'W/"b"', "yesterday")


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
    assert version_of(version, started_at, now=110.0) == expected
