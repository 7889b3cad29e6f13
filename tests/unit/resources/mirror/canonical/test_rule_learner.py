"""Rules proposed from the contents of URLs."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.mirror.canonical.rule_learner import MIN_CONTENTS, UrlObservation, examine_rule, propose_rules
from resources.mirror.canonical.rules import parse_shard_pattern

HOST = "https://a.example.com"
Seen = list[UrlObservation]


def seen(pairs: Iterable[tuple[str, object]]) -> Seen:
    return [UrlObservation(url, str(gave)) for url, gave in pairs]


def versions(places: int = MIN_CONTENTS, values: int = 2, name: str = "v") -> Seen:
    return seen((f"{HOST}/{place}.jpg?{name}={value}", place) for place in range(places) for value in range(values))


def machines(labels: Iterable[str], places: int = MIN_CONTENTS, base: str = "example.com") -> Seen:
    return seen((f"https://{label}.{base}/{place}.jpg", place) for place in range(places) for label in labels)


def proposed(observations: Seen) -> list[tuple[str, str, str]]:
    return [(one.kind, one.host, one.name) for one in propose_rules(observations)]


LABELS = {
    "the first one": (machines(["img3", "img1", "img2"]), "{img1|img2|img3}.example.com"),
    "beside a deeper host": (
        machines(["eu", "us"], base="cdn.example.com") + seen([("https://a.eu.example.com/x", "one")]),
        "{eu|us}.cdn.example.com",
    ),
    "in the middle": (machines(["img.eu", "img.us"]), "img.{eu|us}.example.com"),
    "beside others that differ": (
        machines(["img1", "img2"])
        + seen([("https://www.example.com/", "page"), ("https://img1.example.com/", "other")])
        + seen([("https://www.example.com/i", "icon"), ("https://img1.example.com/i", "icon")]),
        "{img1|img2}.example.com",
    ),
}


@pytest.mark.parametrize(("observations", "hosts"), LABELS.values(), ids=LABELS)
def test_labels_that_give_the_same_are_proposed_together(observations: Seen, hosts: str) -> None:
    assert proposed(observations) == [("label", hosts, "")]


NOTHING = {
    "too few contents": versions(places=MIN_CONTENTS - 1),
    "one value each": versions(values=1),
    "one content for all": seen((f"{HOST}/{place}?v={value}", "empty") for place in range(9) for value in range(3)),
    "contents that differ": seen((f"{HOST}/{place}?v={n}", (place, n)) for place in range(9) for n in (1, 2)),
    "one that contradicts": versions(places=50) + seen([(f"{HOST}/x?v=1", "x"), (f"{HOST}/x?v=2", "y")]),
    "two parameters at a time": seen((f"{HOST}/{place}?v={n}&w={n}", place) for place in range(9) for n in (1, 2)),
    "there or not": seen((f"{HOST}/{place}{query}", place) for place in range(9) for query in ("", "?v=1")),
    "a parameter given twice": seen((f"{HOST}/{place}?v={n}&v=0", place) for place in range(9) for n in (1, 2)),
    "other hosts": seen((f"https://{host}.example/{place}", place) for place in range(9) for host in ("a", "b")),
    "suffixes": seen((f"https://example.{suffix}/{place}", place) for place in range(9) for suffix in ("com", "org")),
    "owners": seen((f"https://{who}.github.io/{place}", place) for place in range(9) for who in ("a", "b")),
    "addresses": seen((f"https://192.0.2.{n}/{place}", place) for place in range(9) for n in (1, 2)),
    "labels that are read as many": machines(["1-3", "7-9"]),
    "labels that no pattern has": machines(["a_b", "a_c"]),
    "a label too many": machines(["a", "b"])
    + seen([("https://a.example.com/y", "one"), ("https://b.example.com/y", "two")]),
    "other paths": seen((f"{HOST}/{value}/{place}", place) for place in range(9) for value in (1, 2)),
    "no URLs": seen([("", 1), ("https://", 1)]),
}


@pytest.mark.parametrize("observations", NOTHING.values(), ids=NOTHING)
def test_nothing_is_proposed(observations: Seen) -> None:
    assert proposed(observations) == []


def test_what_a_host_gives_for_many_things_says_nothing() -> None:
    empty = seen((f"{HOST}/gone{place}?v={value}", "empty") for place in range(9) for value in range(3))
    (found,) = propose_rules(versions() + empty)
    assert found.evidence.contents == MIN_CONTENTS
    assert proposed(versions(places=MIN_CONTENTS - 1) + empty) == []


def test_two_that_differ_are_not_joined_by_a_third() -> None:
    """a is like b, b is like c, and a is not like c."""
    pairs = seen((f"https://{label}.example.com/{place}", place) for place in range(MIN_CONTENTS) for label in "ab")
    pairs += seen(
        (f"https://{label}.example.com/{place}", place) for place in range(10, 10 + MIN_CONTENTS) for label in "bc"
    )
    assert proposed(pairs) == [("label", "{a|b|c}.example.com", "")]
    against = seen([("https://a.example.com/y", "one"), ("https://c.example.com/y", "two")])
    assert proposed(pairs + against) == []


def test_a_rule_is_examined_by_all_or_by_what_is_new() -> None:
    contradicted = versions() + seen([(f"{HOST}/x?v=1", "x"), (f"{HOST}/x?v=2", "y")])
    pair = ((f"{HOST}/x?v=1", f"{HOST}/x?v=2"),)
    assert examine_rule("parameter", "a.example.com", "v", contradicted).against == pair
    assert examine_rule("parameter", "a.example.com", "v", contradicted, {f"{HOST}/x?v=2"}).against == pair
    assert examine_rule("parameter", "a.example.com", "v", contradicted, {f"{HOST}/0?v=1"}).against == ()
    assert examine_rule("parameter", "a.example.com", "w", contradicted).contents == 0


def test_a_rule_of_hosts_is_examined_by_its_own_hosts() -> None:
    others = seen([("https://a.example.com/y", "one"), ("https://z.example.com/y", "two")])
    found = examine_rule("label", "{a|b}.example.com", "", machines(["a", "b"]) + others)
    assert (found.contents, found.against) == (MIN_CONTENTS, ())
    assert examine_rule("label", "{a|z}.example.com", "", machines(["a", "b"]) + others).against != ()


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]), st.sampled_from("xyz"), st.sampled_from("123"), st.sampled_from("pqr")
        ),
        max_size=60,
    )
)
def test_what_is_proposed_merges_nothing_that_differs(given_urls: list[tuple[str, str, str, str]]) -> None:
    """Over all that was observed, URLs that a proposal would make one gave one content."""
    gave = {f"https://{host}.example.com/{path}?v={value}": blob for host, path, value, blob in given_urls}
    few = seen(gave.items())
    same = [*few, *versions(places=9), *machines(["a", "b"], places=9)]
    for one in propose_rules(same):
        merged: dict[str, set[str]] = {}
        for url, blob in same:
            key = url
            if one.kind == "parameter" and url.startswith(f"https://{one.host}/"):
                key = url.partition("?")[0]
            if one.kind == "label":
                hosts = [str(host) for host in parse_shard_pattern(one.host)]
                key = next((url.replace(host, "*", 1) for host in hosts if f"//{host}/" in url), url)
            merged.setdefault(key, set()).add(blob)
        assert all(len(blobs) == 1 for blobs in merged.values())
