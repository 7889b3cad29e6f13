"""Link header fields, as servers send them."""

import time

import pytest

from feeds.pushing.links import MOST_ADDRESSES, addresses_of

BASE = "https://example.org/blog/feed.xml"
HUB = ("https://hub.example.net/",)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        pytest.param(['<https://hub.example.net/>; rel="hub"'], HUB, id="quoted"),
        pytest.param(["<https://hub.example.net/>; rel=hub"], HUB, id="bare"),
        pytest.param(["<https://hub.example.net/>;REL=HUB"], HUB, id="case"),
        pytest.param(['<https://hub.example.net/>; rel="self  hub"'], HUB, id="several relations"),
        pytest.param(['</feed>; rel="self", <https://hub.example.net/>; rel="hub"'], HUB, id="one field"),
        pytest.param(['</feed>; rel="self"', '<https://hub.example.net/>; rel="hub"'], HUB, id="two fields"),
        pytest.param(
            ['</a>; title="a, <b>; rel=hub"; rel=next, <https://hub.example.net/>; rel=hub'], HUB, id="commas in quotes"
        ),
        pytest.param(["</a,b?c;d>; rel=hub"], ("https://example.org/a,b?c;d",), id="commas in the address"),
        pytest.param(["<hub>; rel=hub"], ("https://example.org/blog/hub",), id="relative"),
        pytest.param(["</b>; rel=hub, </a>; rel=hub, </b>; rel=hub"],
                     ("https://example.org/b", "https://example.org/a"), id="each once, in order"),
        pytest.param(["<https://hub.example.net/>; rel=next; rel=hub"], (), id="the first rel counts"),
        pytest.param(["</hub>; rel=hub; anchor='https://other.example'"], (), id="of something else"),
        pytest.param(["<ftp://hub.example.net/>; rel=hub"], (), id="another scheme"),
        pytest.param(["<javascript:alert(1)>; rel=hub"], (), id="no address"),
        pytest.param(['<https://hub.example.net/>; rel="hub'], (), id="quotes that do not end"),
        pytest.param(["https://hub.example.net/; rel=hub"], (), id="no brackets"),
        pytest.param([""], (), id="empty"),
    ],
)  # fmt: skip
def test_hubs_are_found_as_servers_write_them(values: list[str], found: tuple[str, ...]) -> None:
    assert addresses_of("hub", values, BASE) == found


def test_no_more_than_a_few_are_taken() -> None:
    assert len(addresses_of("hub", [", ".join(f"</{number}>; rel=hub" for number in range(99))], BASE)) == (
        MOST_ADDRESSES
    )


@pytest.mark.parametrize("part", ['<a>; x="\\', '<a>; rel="', "<", "<a>;;;; ", '<a>"" ', "<a>; rel=hub; ="])
def test_a_field_that_is_made_to_take_long_does_not(part: str) -> None:
    began = time.process_time()
    addresses_of("hub", [part * (60_000 // len(part))], BASE)
    assert time.process_time() - began < 1
