from dataclasses import dataclass

import pytest

from resources.mirror.canonical.rules import UrlRules
from resources.mirror.canonical.urls import candidate_digests
from resources.mirror.reports.classify import (
    JOINED_DETAIL,
    NO_TEXT_DETAIL,
    UrlDecision,
    decide_urls,
    name_urls,
    storable_text,
)
from tests.support.mirror_rows import digest_of, url
from tests.support.url_outcomes import NONE_LEARNT as RULES
from tests.support.url_outcomes import learnt_parameter


@dataclass(frozen=True)
class Known:
    state: str
    blob_digest: str = ""
    detail: str = ""
    failure: str = ""


def decided(*urls: str, rules: UrlRules = RULES, **seen: Known) -> list[UrlDecision]:
    """By names of `rows.url`, as `a=Known(…)`."""
    named, _ = name_urls(urls, rules, lambda host: False)
    return decide_urls(named, {digest_of(url(name)): one for name, one in seen.items()})


def test_an_unknown_url_is_asked_for_once_in_a_list() -> None:
    first, second = decided(url("a"), url("a"))
    assert (first.status, first.asks, first.detail) == ("accepted", True, "")
    assert (second.status, second.asks, second.detail) == ("accepted", False, JOINED_DETAIL)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(Known("stored", "f00"), ("known", "known", "f00", "", False), id="stored"),
        pytest.param(Known("wanted"), ("accepted", "", "", JOINED_DETAIL, True), id="asked for by another list"),
        pytest.param(Known("wanted", "f00"), ("known", "known", "f00", "", False), id="fetched again"),
        pytest.param(Known("failed", "", "late", "expired"), ("accepted", "", "", "", True), id="a signature ran out"),
        pytest.param(Known("failed", "", "404"), ("failed", "failed", "", "404", False), id="failed"),
    ],
)
def test_a_url_is_decided_by_its_known_state(seen: Known, expected: tuple[object, ...]) -> None:
    [found] = decided(url("a"), a=seen)
    assert (found.status, found.step, found.blob_digest, found.detail, found.asks) == expected


DOWN = Known("failed", "f00", "The file was taken down.", "taken down")


@pytest.mark.parametrize(
    ("before", "after", "digest", "blob", "detail"),
    [
        pytest.param(Known("stored", "f00"), Known("stored", "f11"), "before", "f00", "", id="stored under both"),
        pytest.param(Known("failed"), Known("stored", "f11"), "after", "f11", "", id="stored by the rule alone"),
        pytest.param(Known("wanted"), None, "before", "", JOINED_DETAIL, id="begun before"),
        pytest.param(DOWN, None, "before", "", DOWN.detail, id="taken down before"),
        pytest.param(None, None, "after", "", "", id="unknown"),
    ],
)
def test_a_learnt_rule_keeps_what_was_known_before_it(
    before: Known | None, after: Known | None, digest: str, blob: str, detail: str
) -> None:
    rules = learnt_parameter("images.example.org", "size")
    named, _ = name_urls([f"{url('a')}?size=1"] * 2, rules, lambda host: False)
    keys = dict(zip(("before", "after"), candidate_digests(named[0].url, rules), strict=True))
    seen = {keys["before"]: before, keys["after"]: after}
    first, second = decide_urls(named, {key: one for key, one in seen.items() if one})
    assert (first.url_digest, first.blob_digest, first.detail) == (keys[digest], blob, detail)
    assert (second.url_digest, second.asks) == (keys[digest], False)


@pytest.mark.parametrize(
    "bad",
    ["", "x", "ftp://a.example/", "http://", "https://a.example/\ud800", "http://127.1/", "https://a.b/\0", "a" * 3000],
)
def test_what_cannot_be_mirrored_is_refused_alone(bad: str) -> None:
    named, refused = name_urls([url("a"), bad, url("b")], RULES, lambda host: False)
    assert [one.position for one in named] == [0, 2]
    [found] = refused
    assert (found.position, found.url, found.status, found.step) == (1, bad, "refused", "refused")
    assert found.detail.endswith(".")
    assert (found.detail == NO_TEXT_DETAIL) == ("\ud800" in bad)


@pytest.mark.parametrize(("given", "kept"), [("a\0b", "a�b"), ("\ud800", "?"), ("abcdef", "abc…"), ("abcd", "abcd")])
def test_what_was_refused_is_kept_as_any_database_can(given: str, kept: str) -> None:
    assert storable_text(given, 4) == kept
