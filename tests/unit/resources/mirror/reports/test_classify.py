"""Decisions on reported URLs: known, new, asked for once, or refused."""

import pytest

from resources.mirror.canonical.urls import candidate_digests
from resources.mirror.lookup import UrlStatus
from resources.mirror.models import UrlState
from resources.mirror.reports.classify import JOINED_DETAIL, NO_TEXT_DETAIL, decide_urls, name_urls, storable_text
from tests.support.mirror_rows import HOUR, NOW, digest_of, url
from tests.support.url_outcomes import NONE_LEARNT as RULES
from tests.support.url_outcomes import learnt_parameter

WANTED, STORED, FAILED = UrlState.WANTED, UrlState.STORED, UrlState.FAILED


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(None, ("accepted", "", "", "", True), id="unknown"),
        pytest.param(UrlStatus(STORED, "f00"), ("known", "known", "f00", "", False), id="stored"),
        pytest.param(UrlStatus(WANTED), ("accepted", "", "", JOINED_DETAIL, True), id="asked for by another list"),
        pytest.param(UrlStatus(WANTED, "f00"), ("known", "known", "f00", "", False), id="fetched again"),
        pytest.param(UrlStatus(FAILED, "", "permanent", "404"), ("failed", "failed", "", "404", False), id="failed"),
        pytest.param(
            UrlStatus(FAILED, "", "permanent", "404", due_at=NOW + HOUR),
            ("failed", "failed", "", "404", False),
            id="failed an hour ago",
        ),
        pytest.param(
            UrlStatus(FAILED, "", "permanent", "404", due_at=NOW), ("accepted", "", "", "", True), id="failed long ago"
        ),
    ],
)
def test_a_url_is_decided_by_its_known_state_and_asked_for_once(
    seen: UrlStatus | None, expected: tuple[object, ...]
) -> None:
    named, _ = name_urls([url("a")] * 2, RULES, lambda host: False)
    first, second = decide_urls(named, {digest_of(url("a")): seen} if seen else {}, NOW)
    assert first.retry_at == (seen.due_at if seen and first.status == "failed" else None)
    assert (first.status, first.step, first.blob_digest, first.detail, first.asks) == expected
    assert (second.status, second.asks) == (first.status, False)
    assert second.detail == (JOINED_DETAIL if first.asks else first.detail)


DOWN = UrlStatus(FAILED, "f00", "taken down", "The file was taken down.")


@pytest.mark.parametrize(
    ("before", "after", "digest", "blob", "detail"),
    [
        pytest.param(UrlStatus(STORED, "f00"), UrlStatus(STORED, "f11"), "before", "f00", "", id="stored under both"),
        pytest.param(UrlStatus(FAILED), UrlStatus(STORED, "f11"), "after", "f11", "", id="stored by the rule alone"),
        pytest.param(UrlStatus(WANTED), None, "before", "", JOINED_DETAIL, id="begun before"),
        pytest.param(DOWN, None, "before", "", DOWN.detail, id="taken down before"),
        pytest.param(None, None, "after", "", "", id="unknown"),
    ],
)
def test_a_learnt_rule_keeps_what_was_known_before_it(
    before: UrlStatus | None, after: UrlStatus | None, digest: str, blob: str, detail: str
) -> None:
    rules = learnt_parameter("images.example.org", "size")
    named, _ = name_urls([f"{url('a')}?size=1"] * 2, rules, lambda host: False)
    keys = dict(zip(("before", "after"), candidate_digests(named[0].url, rules), strict=True))
    seen = {keys["before"]: before, keys["after"]: after}
    first, second = decide_urls(named, {key: one for key, one in seen.items() if one}, NOW)
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
