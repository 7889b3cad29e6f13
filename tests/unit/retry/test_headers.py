"""Header fields: `Prefer` and `Accept` in right and wrong forms, trusted addresses, and addresses of one client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retry.headers import (
    MAX_PREFER_CHARACTERS,
    Preferences,
    client_network,
    is_trusted_proxy,
    prefers_page,
    read_preferences,
)
from tests.support.processor_time import within

NONE = Preferences()
ASYNC = Preferences(respond_async=True)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        *((field, ASYNC) for field in ("respond-async", "Respond-ASYNC", 'respond-async=""', "respond-async=")),
        *((field, ASYNC) for field in (" respond-async ;foo=bar; baz , return=minimal", "@, (, respond-async")),
        ('x="a\\",wait=3", respond-async', ASYNC),
        *((field, Preferences(wait_seconds=10)) for field in ("wait=10", "WAIT = 10", 'wait="10"', "wait=010")),
        ("wait = \t 10 \t ; \t a \t = \t ; ;b", Preferences(wait_seconds=10)),
        *((f"wait={seconds}", Preferences(wait_seconds=seconds)) for seconds in (0, 86_400)),
        ("wait=10; a=b, respond-async", Preferences(respond_async=True, wait_seconds=10)),
        ("respond-async, wait=100", Preferences(respond_async=True, wait_seconds=100)),
        ("wait=5, wait=7", Preferences(wait_seconds=5)),
        ('wait=3, x="open, respond-async', Preferences(wait_seconds=3)),
        *((field, NONE) for field in ("wait=x, wait=7", 'x="a,wait=3", handling=lenient', 'respond-async="open')),
        *((field, NONE) for field in ("respond-async=no", "respond async", "respond-async foo", "wait", "=", ",,;,")),
        *((f"wait={text}", NONE) for text in ("", "-1", "1.5", "1e3", "٣", "86401", "9" * 500)),
        *((field, NONE) for field in ("", None, "respond-async," + "x" * 2000)),
    ],
)
def test_well_formed_preferences_are_read(field: str | None, expected: Preferences) -> None:
    assert read_preferences(field) == expected


@given(st.text(st.sampled_from(' \t,;="\\waitrespond-async019é'), max_size=200))
def test_noise_is_read_to_its_end(field: str) -> None:
    assert isinstance(read_preferences(field), Preferences)


@pytest.mark.parametrize("part", [";a=\t ", ";a \t=", "; \t", '"\\', ';a="\\"', ';a="b"', "a", " ", ",", ' ="'])
@pytest.mark.parametrize("end", ["", "@", '"', "\\", "=", " "])
def test_a_field_that_is_made_to_take_long_does_not(part: str, end: str) -> None:
    for beginning in ("a", "a=", 'a="', ""):
        repeated = part * ((MAX_PREFER_CHARACTERS - len(beginning + end)) // len(part))
        with within(0.5):
            read_preferences(beginning + repeated + end)
            prefers_page(None, f"text/html;{beginning}{repeated}{end}")


CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


@pytest.mark.parametrize(
    "accept",
    [
        *(CHROMIUM, "text/html", "TEXT/HTML", "text/*", "Text/Html;Q=1.0, */*;q=0.5", "text/html;charset=UTF-8"),
        *("application/json;q=0, */*;q=0.1, application/problem+json;q=0", "text/html;q=0.2, application/json;q=0.1"),
        'text/html;charset="utf-8";q=0.9, application/json;q=0.8',
    ],
)
def test_a_client_that_prefers_html_gets_a_page(accept: str) -> None:
    assert prefers_page(None, accept)
    assert prefers_page("cors", accept)


@pytest.mark.parametrize(
    "accept",
    [
        *(None, "", "*/*", "application/json", "image/avif,image/webp,*/*;q=0.8", "text/html, application/json"),
        *("text/html;q=0", "text/html;q=0, */*", "text/html;q=0.000, text/*", "text/html;q=0.5, */*"),
        *("text/html;q=0.9, application/problem+json", "application/*, text/html;q=0.9", "text/htmlx", "text"),
        *("text/html;q=1.5", "text/html;q=x", "text/html;level=1", "text/html;charset=latin-1", 'a="text/html, b'),
    ],
)
def test_a_client_without_that_preference_gets_json_unless_a_browser_navigates(accept: str | None) -> None:
    assert not prefers_page(None, accept)
    assert not prefers_page("no-cors", accept)
    assert prefers_page("navigate", accept)


PROXIES = ("10.1.0.0/16", "192.0.2.7", "2001:db8::/32")


@pytest.mark.parametrize(
    ("address", "is_trusted"),
    [
        *((address, True) for address in ("10.1.0.1", "10.1.255.255", "192.0.2.7", "2001:db8::1")),
        *((address, False) for address in ("10.2.0.1", "192.0.2.8", "2001:db9::1", "", "unix:", "10.1.0.1.evil")),
    ],
)
def test_only_an_address_within_a_trusted_network_is_trusted(address: str, is_trusted: bool) -> None:
    assert is_trusted_proxy(address, PROXIES) is is_trusted


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/56"),
        ("2001:db8::6", "2001:db8::/56"),
        ("unix:", "unix:"),
        ("", ""),
    ],
)
def test_a_client_has_an_ipv4_address_or_the_network_of_a_household(address: str, network: str) -> None:
    assert client_network(address) == network
