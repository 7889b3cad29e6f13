"""Rules of settings, and rules that were learnt."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.mirror.canonical import clearurls, urls
from resources.mirror.canonical import rules as canonical_rules
from resources.mirror.canonical.rules import UrlRules, build_learnt_rules
from resources.mirror.canonical.urls import candidate_digests, canonicalise_url, find_surest, find_surest_digest
from tests.support.url_outcomes import NONE_LEARNT as RULES

HOST = "https://a.example.com"
PATTERNS = {
    "no gap": ("a.example.com", "no host with one gap"),
    "two gaps": ("{a|b}.{c|d}.example.com", "no host with one gap"),
    "a suffix": ("*.co.uk", "many owners"),
    "another suffix": ("*.github.io", "many owners"),
    "a registrable domain": ("{a|b}.com", "two labels at least"),
    "one host": ("i{1-1}.example.com", "two hosts at least"),
    "too many": ("i{1-2000}.example.com", "1,000 at the most"),
    "an empty choice": ("{|a}.example.com", "no host"),
    "an empty label": ("..{a|b}.example.com", "two labels at least"),
    "an expression": ("(a+)+.example.com", "no host with one gap"),
}


def with_learnt(*, labels: tuple[str, ...] = (), names: tuple[tuple[str, str], ...] = ()) -> UrlRules:
    found, problems = build_learnt_rules(labels, names)
    assert problems == []
    return replace(RULES, learnt=found)


def text(url: str, rules: UrlRules) -> str:
    return canonicalise_url(url, rules).text


VERSIONS = with_learnt(names=(("a.example.com", "v"),))
MACHINES = with_learnt(labels=("img{1|2|3}.example.com",))
OLD, NEW = f"{HOST}/x.jpg?v=1", f"{HOST}/x.jpg?v=2"


def test_settings_add_names_and_take_built_in_ones_out() -> None:
    names, problems = clearurls.parse_tracking_names(["xx_*", "yy", "!_ga", "!utm_*"])
    rules = replace(RULES, tracking=names)
    assert problems == []
    assert text(f"{HOST}/?xx_a=1&yy=2&yyy=3&fbclid=4", rules) == f"{HOST}/?yyy=3"
    assert text(f"{HOST}/?_ga=1&utm_source=2", rules) == f"{HOST}/?_ga=1&utm_source=2"


@pytest.mark.parametrize("word", ["*", "a*", "", "a b", "a=b", "!nothing", "a*b", "x" * 200, "é_*"])
def test_words_that_are_no_names_are_told_and_left_out(word: str) -> None:
    names, problems = clearurls.parse_tracking_names([word])
    assert (names, len(problems)) == (clearurls.parse_tracking_names([])[0], 1)


def test_settings_add_hosts_and_take_built_in_ones_out() -> None:
    found, problems = canonical_rules.choose_shards(["cdn-{1-3}.example.com", "img-*.example.com", "!i{0-3}.wp.com"])
    rules = replace(RULES, shards=found)
    assert problems == []
    assert text("https://cdn-2.example.com/x", rules) == text("https://cdn-3.example.com/x", rules)
    assert text("https://cdn-4.example.com/x", rules) != text("https://cdn-3.example.com/x", rules)
    assert text("https://img-a.example.com/x", rules) == text("https://img-b-c.example.com/x", rules)
    assert text("https://i1.wp.com/x", rules) == "https://i1.wp.com/x"


@pytest.mark.parametrize(("pattern", "why"), PATTERNS.values(), ids=PATTERNS)
def test_patterns_that_mean_no_hosts_are_told_and_left_out(pattern: str, why: str) -> None:
    found, problems = canonical_rules.parse_shards([pattern])
    assert found == canonical_rules.Shards({})
    assert [why in problem for problem in problems] == [True]


def test_patterns_that_overlap_are_one_in_any_order() -> None:
    patterns = ["{a|b}.x.example.com", "{c|b}.x.example.com", "{d|c}.x.example.com"]
    for order in (patterns, patterns[::-1]):
        found, _ = canonical_rules.parse_shards(order)
        assert {found.one(f"{letter}.x.example.com") for letter in "abcd"} == {"a.x.example.com"}


@settings(max_examples=50)
@given(st.lists(st.text("ab.-{}|*1c!", max_size=20)))
def test_any_words_are_read_or_told(words: list[str]) -> None:
    clearurls.parse_tracking_names(words)
    found, _ = canonical_rules.choose_shards(words)
    found.one("a.b.example.com")


@pytest.mark.parametrize(
    "other",
    [
        f"{HOST}/x.jpg",
        f"{HOST}/x.jpg?v",
        f"{HOST}/x.jpg?v=1&v=2",
        f"{HOST}/x.jpg?v=1&w=2",
        f"{HOST}/x.jpg?V=1",
        f"{HOST}/y.jpg?v=1",
        "https://b.example.com/x.jpg?v=1",
        "http://a.example.com:8080/x.jpg?v=1",
    ],
)
def test_the_values_of_a_learnt_parameter_do_not_count_and_nothing_else_is_one(other: str) -> None:
    assert text(other, VERSIONS) != text(OLD, VERSIONS) == text(NEW, VERSIONS) == f"{HOST}/x.jpg?v="


def test_learnt_hosts_are_one_and_no_others_are() -> None:
    assert text("https://img2.example.com/x", MACHINES) == text("https://img3.example.com/x", MACHINES)
    assert text("https://img4.example.com/x", MACHINES) != text("https://img3.example.com/x", MACHINES)


def test_a_url_that_was_stored_before_a_rule_is_known_by_the_key_of_then() -> None:
    assert candidate_digests(OLD, VERSIONS) == (
        canonicalise_url(OLD, RULES).digest,
        canonicalise_url(OLD, VERSIONS).digest,
    )
    assert candidate_digests(f"{HOST}/x.jpg", VERSIONS) == (canonicalise_url(f"{HOST}/x.jpg", RULES).digest,)


@pytest.mark.parametrize(
    ("own", "concluded", "surest"),
    [
        ("s1", "s2", "own"),
        ("f1", "s2", "concluded"),
        ("f1", "f2", "concluded"),
        ("f1", None, "own"),  # a fetch that began before a rule goes on
        (None, None, "concluded"),
    ],
)
def test_what_a_url_gave_goes_before_what_a_rule_concludes(own: str | None, concluded: str | None, surest: str) -> None:
    digests = candidate_digests(OLD, VERSIONS)
    found = {digest: one for digest, one in zip(digests, (own, concluded), strict=True) if one}
    digest = digests[0] if surest == "own" else digests[1]
    assert find_surest_digest(digests, found, lambda one: one.startswith("s")) == digest
    assert find_surest(digests, found, lambda one: one.startswith("s")) == found.get(digest)


def test_learnt_rules_leave_one_url_in_a_hundred_alone_so_that_they_are_watched() -> None:
    versions = [f"{HOST}/x.jpg?v={number}" for number in range(5_000)]
    alone = [url for url in versions if text(url, VERSIONS) == url]
    assert 0.5 < len(alone) * urls.WATCHED_ONE_IN / len(versions) < 1.5
    assert all(candidate_digests(url, VERSIONS) == (canonicalise_url(url, RULES).digest,) for url in alone[:10])


@settings(max_examples=50)
@given(st.text("v=&%3D1a", max_size=15))
def test_the_canonical_url_has_itself_for_its_key_under_learnt_rules_too(query: str) -> None:
    found = text(f"{HOST}/x?{query}", VERSIONS)
    assert text(found, VERSIONS) == found


def test_rules_that_give_other_keys_have_another_fingerprint() -> None:
    tracking, _ = clearurls.parse_tracking_names(["xx"])
    hosts, _ = canonical_rules.choose_shards(["{a|b}.example.com"])
    found = [RULES, VERSIONS, MACHINES, replace(RULES, tracking=tracking), replace(RULES, shards=hosts)]
    assert len({rules.fingerprint for rules in found}) == len(found)
    assert replace(RULES).fingerprint == RULES.fingerprint
