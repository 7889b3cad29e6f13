"""Popular pages of feeds are rendered before anybody asks for them."""

import pytest
from django.test import Client

from feeds.serving import warming
from tests.feeds import rows
from tests.feeds.rows import entry
from tests.feeds.serving.conftest import Workers

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]


@pytest.mark.parametrize(
    ("counted_key", "address"),
    [
        ("feed:sea:atom:", "/feeds/sea.atom"),
        ("feed:sea:html:", "/feeds/sea/"),
        ("feeds:earth:rss:", "/feeds/category/earth.rss"),
        ("feeds:all:html:", "/feeds/"),
    ],
)
def test_the_work_of_a_popular_page_is_what_main_would_have_done(
    client: Client, workers: Workers, counted_key: str, address: str
) -> None:
    rows.category("earth", rows.feed("sea", entry(1)))
    found = warming.piece(counted_key, 7.0)
    assert found is not None
    assert (found.work.lane, found.requests, found.wanted[0].address) == ("paint.warm", 7.0, address)
    assert client.get(address).status_code in {200, 302}
    [(_, work_key, *_)] = workers.calls
    assert work_key == found.work.key


@pytest.mark.parametrize("counted_key", ["feed:gone:atom:", "feed:sea:pdf:", "feed:sea:atom:q=x", "feed", "", "tile:a"])
def test_what_is_gone_or_has_parameters_has_none(counted_key: str) -> None:
    rows.feed("sea", entry(1))
    assert warming.piece(counted_key, 7.0) is None
