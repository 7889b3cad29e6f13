from dataclasses import dataclass, replace

import pytest

from resources.mirror.canonical.rules import UrlRules, build_learnt_rules
from resources.mirror.canonical.urls import candidate_digests
from resources.mirror.reports.classify import (
    BLOCKED_DETAIL,
    JOINED_DETAIL,
    NO_TEXT_DETAIL,
    UrlDecision,
    decide_urls,
    name_urls,
    storable_text,
)
from tests.support.mirror_rows import digest_of, url
from tests.support.url_outcomes import NONE_LEARNT as RULES


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


def test_a_stored_url_is_known_by_its_content() -> None:
    [found] = decided(url("a"), a=Known("stored", "f00"))
    assert (found.status, found.step, found.blob_digest, found.asks) == ("known", "known", "f00", False)


def test_an_unknown_url_is_asked_for_once_in_a_list() -> None:
    first, second = decided(url("a"), url("a"))
    assert (first.status, first.asks, first.detail) == ("accepted", True, "")
    assert (second.status, second.asks, second.detail) == ("accepted", False, JOINED_DETAIL)


def test_a_url_that_somebody_has_asked_for_is_not_asked_for_again() -> None:
    [found] = decided(url("a"), a=Known("wanted"))
    assert (found.status, found.asks, found.detail) == ("accepted", True, JOINED_DETAIL)


def test_a_signature_that_ran_out_is_tried_anew() -> None:
    [found] = decided(url("a"), a=Known("failed", "", "expired", "expired"))
    assert (found.status, found.asks, found.detail) == ("accepted", True, "")


def test_what_was_stored_before_a_rule_was_learnt_is_known_by_its_old_name() -> None:
    found_rules, _ = build_learnt_rules([], [("images.example.org", "size")])
    rules = replace(RULES, learnt=found_rules)
    named, _ = name_urls([f"{url('a')}?size=1"], rules, lambda host: False)
    before, after = candidate_digests(named[0].url, rules)
    [found] = decide_urls(named, {before: Known("stored", "f00"), after: Known("stored", "f11")})
    assert found.blob_digest == "f00"
    [found] = decide_urls(named, {before: Known("failed"), after: Known("stored", "f11")})
    assert (found.blob_digest, found.url_digest) == ("f11", after)


def test_what_was_begun_before_a_rule_was_learnt_is_joined_and_what_failed_is_told() -> None:
    found_rules, _ = build_learnt_rules([], [("images.example.org", "size")])
    rules = replace(RULES, learnt=found_rules)
    named, _ = name_urls([f"{url('a')}?size=1"] * 2, rules, lambda host: False)
    before, after = candidate_digests(named[0].url, rules)
    [found, again] = decide_urls(named, {before: Known("wanted")})
    assert (found.status, found.url_digest, found.detail) == ("accepted", before, JOINED_DETAIL)
    assert (again.url_digest, again.asks) == (before, False)
    [found, _] = decide_urls(named, {before: Known("failed", "f00", "The file was taken down.", "taken down")})
    assert (found.status, found.detail) == ("failed", "The file was taken down.")
    [found, _] = decide_urls(named, {})
    assert (found.url_digest, found.asks) == (after, True)


def test_what_is_fetched_again_is_known_meanwhile() -> None:
    [found] = decided(url("a"), a=Known("wanted", "f00"))
    assert (found.status, found.blob_digest) == ("known", "f00")


def test_a_failure_is_told_with_its_reason() -> None:
    [found] = decided(url("a"), a=Known("failed", "", "404 Not Found"))
    assert (found.status, found.step, found.detail) == ("failed", "failed", "404 Not Found")


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


def test_half_a_character_is_no_text() -> None:
    _, [refused] = name_urls(["https://a.example/\ud800"], RULES, lambda host: False)
    assert refused.detail == NO_TEXT_DETAIL


def test_blocked_hosts_are_refused() -> None:
    _, [refused] = name_urls([url("a")], RULES, lambda host: host == "images.example.org")
    assert refused.detail == BLOCKED_DETAIL


@pytest.mark.parametrize(("given", "kept"), [("a\0b", "a�b"), ("\ud800", "?"), ("abcdef", "abc…"), ("abcd", "abcd")])
def test_what_was_refused_is_kept_as_any_database_can(given: str, kept: str) -> None:
    assert storable_text(given, 4) == kept
