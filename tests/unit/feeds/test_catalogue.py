"""From addresses to feeds: identity, names, categories."""

from dataclasses import replace

import pytest

from feeds import addresses, catalogue, categories, credentials, lifecycle
from feeds.errors import FeedAddressError
from feeds.models import ALL_SLUG, Category, Feed, Move
from feeds.opml import ListedFeed
from feeds.parser.discovery import FeedAddress
from tests.support import plain_feeds
from tests.support.plain_feeds import NOW

pytestmark = pytest.mark.django_db


def wanted(url: str, title: str = "", *paths: tuple[str, ...]) -> ListedFeed:
    return ListedFeed(addresses.read_address(url), title, categories=paths)


def add(url: str, title: str = "", *paths: tuple[str, ...]) -> Feed:
    feed, _ = catalogue.add_feed(addresses.read_address(url), title=title, categories=paths, now=NOW)
    return feed


def test_an_address_becomes_a_feed_that_is_due_at_once() -> None:
    feed, is_new = catalogue.add_feed(addresses.read_address("https://one.example:8443/feed"), title="One", now=NOW)
    feed.refresh_from_db()
    assert is_new
    assert (feed.slug, feed.host, feed.next_check_at) == ("one", "one.example:8443", NOW)
    assert feed.reason


def test_feeds_of_one_name_have_slugs_of_their_own() -> None:
    added = catalogue.add_feeds([wanted(f"https://one.example/{number}.xml", "News") for number in range(3)], NOW)
    slugs = [feed.slug for feed in (*added.feeds, add("https://d.example/", "news!"))]
    assert slugs == ["news", "news-2", "news-3", "news-4"]
    more = catalogue.add_feeds([wanted(f"https://one.example/{number}.xml", "News") for number in range(100)], NOW)
    assert (len(more.new), len({feed.slug for feed in more.feeds})) == (97, 100)


@pytest.mark.parametrize("title", ["All", "Category"])
def test_reserved_slugs_are_given_to_no_feed(title: str) -> None:
    assert add("https://one.example/", title).slug == f"{title.lower()}-2"


def test_passwords_are_kept_sealed_and_in_no_address() -> None:
    feed = add("https://me:secret@one.example/")
    assert "secret" not in feed.url + feed.sealed_password
    assert credentials.request_headers(feed) == {"Authorization": "Basic bWU6c2VjcmV0"}


@pytest.mark.parametrize("userinfo", ["a%3Ab:c", "a%00:c", "a:b%0Ac", f"{'u' * 201}:c", f"a:{'p' * 1001}"])
def test_what_basic_authentication_cannot_carry_is_refused(userinfo: str) -> None:
    with pytest.raises(FeedAddressError, match="user"):
        addresses.read_address(f"https://{userinfo}@one.example/")


def test_nested_categories_are_made_once() -> None:
    catalogue.add_feeds([wanted("https://a.example/", "A", ("News", "Europe"), ("Daily",))], NOW)
    catalogue.add_feeds([wanted("https://b.example/", "B", ("News", "Europe"))], NOW)
    europe = Category.objects.get(title="Europe")
    assert (europe.slug, europe.parent, europe.feeds.count()) == ("europe", Category.objects.get(title="News"), 2)
    assert Category.objects.exclude(slug=ALL_SLUG).count() == 3


def test_categories_of_one_name_in_two_places_are_two() -> None:
    catalogue.add_feeds([wanted("https://a.example/", "A", ("News", "Art"), ("Magazines", "Art"), ("技術",))], NOW)
    slugs = set(Category.objects.values_list("slug", flat=True))
    assert {"art", "art-2"} < slugs
    assert any(slug.startswith("category-") for slug in slugs)


@pytest.mark.parametrize("title", ["News", "news"])
def test_categories_that_are_made_at_the_same_time_are_there(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process makes the same one, or takes its slug, between the look and the row."""
    free_slug = categories._free_slug

    def overtaken(parent: Category | None, wanted: str) -> str:
        slug = free_slug(parent, wanted)
        monkeypatch.undo()
        Category.objects.create(slug=slug, title=title)
        return slug

    monkeypatch.setattr(categories, "_free_slug", overtaken)
    assert add("https://a.example/", "", ("News",)).categories.get().title == "News"
    assert Category.objects.filter(title__iexact="news").count() == len({"News", title})


def test_a_category_called_like_that_of_everything_is_not_made_again() -> None:
    everything = Category.objects.get(slug=ALL_SLUG)
    assert not add("https://a.example/", "", (everything.title,)).categories.exists()
    assert add("https://b.example/", "", ("All",)).categories.get().slug == "all-2"


def test_a_feed_that_was_there_comes_into_more_categories() -> None:
    before = plain_feeds.feed("one")
    added = catalogue.add_feeds([wanted(before.url, "", ("News",)), wanted("https://b.example/", "B", ("News",))], NOW)
    assert added.recategorised == {before.pk}
    assert Category.objects.get(slug="news").version > 0
    assert catalogue.add_feeds([wanted(before.url, "", ("News",))], NOW).recategorised == frozenset()


@pytest.mark.parametrize("site", ["javascript:alert(1)", "nonsense", "https://x.example/" + "a" * 3000])
def test_a_site_that_people_should_not_click_is_left_out(site: str) -> None:
    assert catalogue.add_feeds([replace(wanted("https://a.example/"), site=site)], NOW).feeds[0].site == ""


def test_the_likeliest_feed_of_a_page_takes_its_place() -> None:
    feed = plain_feeds.feed("one", state="failing", trouble="UNREADABLE", failures=1, failing_since=NOW)
    found = [FeedAddress("https://one.example/posts.atom", "Posts"), FeedAddress("https://one.example/talk.rss")]
    assert catalogue.replace_by_discovered(feed.pk, found, "https://one.example/", NOW)
    feed.refresh_from_db()
    assert (feed.url, feed.site) == ("https://one.example/posts.atom", "https://one.example/")
    assert [each["url"] for each in feed.discovered] == [each.url for each in found]
    assert (feed.next_check_at, feed.state, feed.failures, feed.failing_since) == (NOW, "active", 0, None)


def test_what_people_took_back_is_not_discovered_again() -> None:
    feed = plain_feeds.feed("one")
    found = [FeedAddress("https://one.example/a"), FeedAddress("https://one.example/b")]
    catalogue.replace_by_discovered(feed.pk, found, feed.url, NOW)
    assert lifecycle.undo_move(Move.objects.get().pk, NOW)
    assert catalogue.replace_by_discovered(feed.pk, found, feed.url, NOW)
    feed.refresh_from_db()
    assert feed.url == "https://one.example/b"


def test_a_page_changes_no_feed_that_was_read_or_found_by_a_page_and_nothing_without_feeds_to_fetch() -> None:
    feed, read = plain_feeds.feed("one"), plain_feeds.feed("read", fetched_at=NOW)
    found = [FeedAddress("https://one.example/a")]
    assert not catalogue.replace_by_discovered(read.pk, found, read.url, NOW)
    assert not catalogue.replace_by_discovered(feed.pk, [], feed.url, NOW)
    assert not catalogue.replace_by_discovered(feed.pk, [FeedAddress("https://0x7f.1/")], feed.url, NOW)
    assert set(Feed.objects.values_list("url", flat=True)) == {feed.url, read.url}
    assert catalogue.replace_by_discovered(feed.pk, found, feed.url, NOW)
    assert not catalogue.replace_by_discovered(feed.pk, [FeedAddress("https://one.example/b")], feed.url, NOW)


def test_a_page_of_a_feed_that_is_there_becomes_that_feed() -> None:
    there, feed = plain_feeds.feed("there"), plain_feeds.feed("one")
    assert catalogue.replace_by_discovered(feed.pk, [FeedAddress(there.url)], feed.url, NOW)
    assert [row.pk for row in Feed.objects.all()] == [there.pk]


def test_a_page_passes_no_password_on_to_another_server() -> None:
    feed = add("https://me:secret@one.example/")
    catalogue.replace_by_discovered(feed.pk, [FeedAddress("https://other.example/feed")], feed.url, NOW)
    feed.refresh_from_db()
    assert (feed.user, feed.sealed_password) == ("", "")
