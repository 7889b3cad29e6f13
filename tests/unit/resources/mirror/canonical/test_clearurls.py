"""Rules in the format of ClearURLs: the parts that count, and broken files."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resources.mirror.canonical import clearurls
from resources.mirror.canonical.rules import UrlRules
from resources.mirror.canonical.urls import canonicalise_url
from resources.mirror.errors import RulesError, UrlError
from tests.support.url_outcomes import NONE_LEARNT

FILE = Path(__file__).parent / "clearurls.json"

SAID = {
    "a parameter": ("https://www.amazon.de/dp/B1?qid=1&th=1", "https://www.amazon.de/dp/B1?th=1"),
    "capitals": ("https://www.amazon.de/dp/B1?QID=1", "https://www.amazon.de/dp/B1"),
    "an expression": ("https://www.amazon.de/dp/B1?pf_rd_p=1&pd_rd_w=2", "https://www.amazon.de/dp/B1"),
    "the whole of a name": ("https://www.amazon.de/dp/B1?qid2=1", "https://www.amazon.de/dp/B1?qid2=1"),
    "whoever refers": ("https://www.amazon.de/dp/B1?tag=me-21", "https://www.amazon.de/dp/B1"),
    "a part of the path": ("https://www.amazon.de/dp/B1/ref=sr_1?x=1", "https://www.amazon.de/dp/B1?x=1"),
    "what an exception saves": ("https://amazon.de/gp/cart/x?qid=1", "https://amazon.de/gp/cart/x?qid=1"),
    "another site": ("https://a.example/dp/B1?qid=1", "https://a.example/dp/B1?qid=1"),
    "all sites": ("https://a.example/?spm=1&Echobox=2&ga_id=3", "https://a.example/"),
    "an exception of all sites": ("https://matrix.org/_matrix/?spm=1", "https://matrix.org/_matrix/?spm=1"),
    "two providers": ("https://www.google.com/x?ved=1&spm=2&q=3", "https://www.google.com/x?q=3"),
    "no redirection": ("https://www.google.com/url?q=http://a/&ved=1", "https://www.google.com/url?q=http://a/"),
    "refused but for an exception": ("https://fls-na.amazon.com/pictures/1", "https://fls-na.amazon.com/pictures/1"),
}

NO_FILE = {
    "nothing": "",
    "no JSON": "<html>",
    "a list": "[]",
    "no providers": "{}",
    "providers in a list": '{"providers": []}',
    "depths": "[" * 100_000,
    "a number that is too long": '{"providers": ' + "9" * 10_000 + "}",
}

BROKEN = {
    "an expression that does not end": ({"rules": ["("]}, "rules has '('"),
    "a look ahead": ({"rules": ["(?!a)b"]}, "rules has '(?!a)b'"),
    "a reference back": ({"rawRules": [r"(a)\1"]}, "rawRules has"),
    "too many times": ({"exceptions": ["(a{1000}){1000}"]}, "exceptions has"),
    "a number": ({"rules": [1]}, "rules has an entry that is no expression"),
    "nothing at all": ({"rules": [""]}, "rules has an entry that is no expression"),
    "too long": ({"rules": ["a" * 3000]}, "rules has an entry that is no expression"),
    "a text for a list": ({"rules": "abc"}, "rules must be a list"),
    "a word for a switch": ({"completeProvider": "no"}, "completeProvider and forceRedirection must be"),
    "half a letter": ({"rules": ["\ud800"]}, "rules has"),
}


def rules(**provider: object) -> tuple[UrlRules, list[str]]:
    text = json.dumps({"providers": {"one": {"urlPattern": "a[.]example", "rules": ["good"], **provider}}})
    found, problems = clearurls.parse_rules_file(text)
    return replace(NONE_LEARNT, file=found), problems


@pytest.fixture(scope="module")
def excerpt() -> UrlRules:
    found, problems = clearurls.parse_rules_file(FILE.read_text())
    assert problems == []
    return replace(NONE_LEARNT, file=found)


@pytest.mark.parametrize(("url", "text"), SAID.values(), ids=SAID)
def test_the_file_says_what_does_not_count(excerpt: UrlRules, url: str, text: str) -> None:
    assert canonicalise_url(url, excerpt).text == text
    assert canonicalise_url(text, excerpt).text == text
    assert canonicalise_url(url.replace("https://", "http://", 1), excerpt).text == text


def test_a_complete_provider_is_refused(excerpt: UrlRules) -> None:
    with pytest.raises(UrlError, match=r"the rules file refuses all of fls-na\.amazon\.$"):
        canonicalise_url("https://fls-na.amazon.com/1/action", excerpt)


@pytest.mark.parametrize("text", NO_FILE.values(), ids=NO_FILE)
def test_what_is_no_such_file_is_an_error(text: str) -> None:
    with pytest.raises(RulesError):
        clearurls.parse_rules_file(text)


@pytest.mark.parametrize(("provider", "said"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_used_is_told_and_the_rest_holds(provider: dict[str, object], said: str) -> None:
    _, problems = rules(**provider)
    assert [problem.startswith(f"one: {said}") for problem in problems] == [True]
    other = {"two": {"urlPattern": "a[.]example", "rules": ["fine"]}}
    found, _ = clearurls.parse_rules_file(json.dumps({"providers": {"one": {"urlPattern": "a", **provider}, **other}}))
    assert (
        canonicalise_url("https://a.example/?fine=1&good=2", replace(NONE_LEARNT, file=found)).text
        == "https://a.example/?good=2"
    )


def test_a_provider_whose_urls_cannot_be_told_is_left_out() -> None:
    found, problems = clearurls.parse_rules_file('{"providers": {"one": {"urlPattern": "("}, "two": 2}}')
    assert (len(found.providers), len(problems)) == (0, 2)
    assert canonicalise_url("https://a.example/?x=1", replace(NONE_LEARNT, file=found)).text == "https://a.example/?x=1"


def test_patterns_that_are_too_much_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clearurls, "_INDEX_BYTES", 1 << 16)
    providers = {f"{number}": {"urlPattern": f"(?:[a-z]{{1,40}}[.]){{3}}{number}"} for number in range(20)}
    with pytest.raises(RulesError, match="too much together: failed to compile"):
        clearurls.parse_rules_file(json.dumps({"providers": providers}))


def test_many_problems_are_told_in_short() -> None:
    _, problems = rules(rules=["("] * 100)
    assert (len(problems), problems[-1]) == (21, "and 80 more like these")


@pytest.mark.parametrize("raw", ["https?://[^/]*", "a[.]", ".*", "example"], ids=str)
def test_no_rule_makes_a_url_one_of_another_host(raw: str) -> None:
    found, _ = rules(rawRules=[raw])
    assert canonicalise_url("https://a.example/x?y=1", found).text == "https://a.example/x?y=1"


def test_an_expression_that_hangs_others_takes_no_time() -> None:
    """Backtracking would take longer than the age of the universe: the end of the test is the proof."""
    found, _ = rules(rules=["(a+)+$", "(a|a)*b"], rawRules=["(x+x+)+y"], exceptions=["(.*)*z$"])
    url = f"https://a.example/{'x' * 900}?{'a' * 900}!=1"
    assert canonicalise_url(url, found).text == url


@settings(max_examples=50)
@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["urlPattern", "rules", "rawRules", "exceptions", "completeProvider"]), inner
            )
        ),
    )
)
@example({"urlPattern": "0"})
def test_any_json_is_read_or_refused(entry: object) -> None:
    found, _ = clearurls.parse_rules_file(json.dumps({"providers": {"one": entry}}))
    with suppress(UrlError):
        canonicalise_url("https://a.example/x?y=1", replace(NONE_LEARNT, file=found))
