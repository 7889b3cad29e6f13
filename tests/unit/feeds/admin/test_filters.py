"""Filters on the pages of feeds and of categories in the admin."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from lxml import html

from feeds.models import Category, Entry, EntryFilter, Feed
from tests.support import admin_pages
from tests.support.admin_pages import log_in_to_look, rows_of, text_of
from tests.support.feed_rows import category, entry, feed

from .test_pages import CATEGORIES, form, page_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sea() -> Feed:
    return feed("sea", entry(1, title="Whales"), entry(2, title="An ad"), entry(3, title="Terns"))


def save(client: Client, to: Feed, *rows: dict[str, str]) -> Any:
    return client.post(page_of(to), form(to, **rows_of("filters", *rows)), follow=True)


def rule(**fields: str) -> dict[str, str]:
    return {"action": "hide", "words": "", "pattern": "", "field": "", **fields}


def errors(response: Any) -> list[str]:
    page: Any = html.fromstring(text_of(response))
    return [str(each) for each in page.xpath("//ul[contains(@class, 'errorlist')]/li/text()")]


def test_filters_of_a_feed_take_effect_as_soon_as_they_are_saved(admin_client: Client, sea: Feed) -> None:
    version = sea.version
    response = save(admin_client, sea, rule(words="ad"), rule(pattern="^terns", field="title"))
    assert "The filters hide 2 of the newest 3 entries." in admin_pages.said(response)
    page = text_of(admin_client.get(page_of(sea)))
    assert "3, 2 of them filtered" in page
    assert ("Whales" in page, "Terns" in page) == (True, False)
    hidden = text_of(admin_client.get(f"{page_of(sea)}?entries=filtered"))
    assert ("Whales" in hidden, "Terns" in hidden, "An ad" in hidden) == (False, True, True)
    sea.refresh_from_db()
    assert sea.version > version
    assert "Added filter “Hide: ad”." in str(LogEntry.objects.latest("pk"))
    kept, other = EntryFilter.objects.all()
    rows = (rule(id=str(kept.pk), words="whales"), rule(id=str(other.pk), pattern=other.pattern, DELETE="on"))
    save(admin_client, sea, *rows)
    assert list(Entry.objects.filter(filtered_at__isnull=False).values_list("title", flat=True)) == ["Whales"]


def test_saving_a_feed_without_a_change_of_filters_judges_nothing_anew(admin_client: Client, sea: Feed) -> None:
    kept = EntryFilter.objects.create(feed=sea, words="whales")
    response = save(admin_client, sea, rule(id=str(kept.pk), words="whales"))
    assert not any("filters" in one for one in admin_pages.said(response))
    assert not Entry.objects.filter(filtered_at__isnull=False).exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (rule(action="only"), "either words or a pattern"),
        (rule(words="tag:"), "tag: without a word"),
        (rule(pattern="[z-a]"), "invalid character class range: z-a"),
        (rule(words="feed:sea"), "no feed: terms"),
        (rule(action="show", words="sea"), "show is not one of the available choices"),
        (rule(words="a" * 201), "at most 200 characters"),
    ],
)
def test_a_filter_that_cannot_be_is_refused_beside_its_field(
    admin_client: Client, sea: Feed, given: dict[str, str], message: str
) -> None:
    found = errors(save(admin_client, sea, {**given, "DELETE": ""}, rule(words="kept back")))
    assert any(message in one for one in found), found
    assert not EntryFilter.objects.exists()


def test_a_feed_has_at_most_20_filters(admin_client: Client, sea: Feed) -> None:
    response = save(admin_client, sea, *(rule(words=f"word{number}") for number in range(21)))
    assert any("at most 20" in one for one in errors(response))
    assert not EntryFilter.objects.exists()


def test_filters_of_a_category_have_tags_alone_and_withdraw_its_pages(admin_client: Client, sea: Feed) -> None:
    above = category("above")
    planet = category("planet", sea, parent=above)
    fields = {"title": "Planet", "slug": "planet", "parent": above.pk}
    page = f"{CATEGORIES}{planet.pk}/change/"
    wrong = {**fields, **rows_of("filters", {"action": "only", "words": "whales"})}
    assert any("tags alone: tag:sea" in one for one in errors(admin_client.post(page, wrong)))
    right = {**fields, **rows_of("filters", {"action": "only", "words": "tag:whales"})}
    response = admin_client.post(page, right, follow=True)
    assert "The filters hide 3 of the newest 3 entries." in admin_pages.said(response)
    planet.refresh_from_db()
    assert planet.least_version == planet.version > 0
    assert Category.objects.get(pk=above.pk).least_version == 0


def test_who_may_change_feeds_may_change_their_filters_and_who_may_look_sees_them(client: Client, sea: Feed) -> None:
    EntryFilter.objects.create(feed=sea, words="whales")
    log_in_to_look(client, "feed")
    page = text_of(client.get(page_of(sea)))
    assert ("whales" in page, 'name="filters-0-words"' in page) == (True, False)
    editor = User.objects.create_user("editor", is_staff=True)
    editor.user_permissions.add(Permission.objects.get(codename="change_feed"))
    client.force_login(editor)
    kept = EntryFilter.objects.get()
    save(client, sea, rule(id=str(kept.pk), words="terns"))
    assert EntryFilter.objects.get().words == "terns"
