"""Link header fields, as servers send them."""

import pytest

from feeds.pushing import links
from feeds.pushing.links import MOST_ADDRESSES, MOST_READ_CHARACTERS, addresses_of
from tests.processor_time import within

BASE = "https://example.org/blog/feed.xml"
HUB = ("https://hub.example.net/",)


def hubs(values: list[str]) -> tuple[str, ...]:
    return addresses_of(("hub",), values, BASE)["hub"]


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
        pytest.param(
            ['</a>; title="a; rel=hub, </b>; rel=hub', "<https://hub.example.net/>; rel=hub"],
            HUB,
            id="quotes that do not end take the rest of their field",
        ),
        pytest.param(['<https://hub.example.net/>; rel=hub; title="\\'], HUB, id="quotes that do not end after rel"),
        pytest.param(["https://hub.example.net/; rel=hub"], (), id="no brackets"),
        pytest.param([""], (), id="empty"),
    ],
)  # fmt: skip
def test_hubs_are_found_as_servers_write_them(values: list[str], found: tuple[str, ...]) -> None:
    assert hubs(values) == found


def test_several_relations_are_read_in_one_go() -> None:
    values = ["</feed>; rel=self, </1>; rel=hub", '</2>; rel="HUB self", </3>; rel=next']
    assert addresses_of(("hub", "self", "other"), values, BASE) == {
        "hub": ("https://example.org/1", "https://example.org/2"),
        "self": ("https://example.org/feed", "https://example.org/2"),
        "other": (),
    }


def test_no_more_than_a_few_are_taken() -> None:
    assert len(hubs([", ".join(f"</{number}>; rel=hub" for number in range(99))])) == MOST_ADDRESSES


def test_fields_are_read_as_far_as_is_allowed_for_all_of_them() -> None:
    link = "</next>; rel=next, "
    many = link * (MOST_READ_CHARACTERS // 2 // len(link))
    assert hubs([many, "<https://hub.example.net/>; rel=hub"]) == HUB
    assert hubs([many, many, many, "<https://hub.example.net/>; rel=hub"]) == ()


@pytest.mark.parametrize(
    "part",
    [
        *('<a>\\"', '<a>; x="\\', '<a>; rel="', "<", "<a>;;;; ", '<a>"" ', "<a>; rel=hub; =", '"', "<a>; \t"),
        *('<a>"\\', "<a>; rel =", ';rel="', "<a>;rel"),
    ],
)
@pytest.mark.parametrize("end", ["", "\\", '"', "<"])
def test_a_field_that_is_made_to_take_long_does_not(part: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MOST_READ_CHARACTERS", 100_000)
    with within(2):
        hubs([part * (100_000 // len(part)) + end, end])
