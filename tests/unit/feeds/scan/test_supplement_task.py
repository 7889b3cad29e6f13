"""Articles, chapters and icons beside the feeds: fetched by a real fetcher, taken apart in a child, stored."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from multidict import CIMultiDict
from pytest_django import Settings

from feeds import catalogue, supplements
from feeds.addresses import FeedLocation
from feeds.catalogue import FeedEdit
from feeds.changes import numbers
from feeds.models import Entry, EntryFilter, Feed, Supplement
from feeds.pages import page_entries
from feeds.parser.documents import ParsedEntry
from feeds.scan import supplement_task
from resources.fetch import dispatch
from resources.fetch.dispatch import EnqueueOutcome, OriginBusy, QueuedWork, WorkEnqueued
from resources.fetch.http.messages import Body, Failure, Fetched, FetchFailed, Head, OutcomeTiming
from retry import stores
from tests.hostile.origin import Behaviour, Origin, answer
from tests.support import feed_rows
from tests.support.feed_rows import NOW, entry
from tests.support.feed_scans import due_again, feed, gather, scan, subscribe, wait_until

pytestmark = pytest.mark.usefixtures("feed_redis")

WORDS = "The tide at the harbour rises twice a day, and the boats rise with it, as they have always done. "
FURTHER = "The moon pulls at the water, which is a long way to pull, and the sun helps by the day of the month. "
PAGE = """<!doctype html><html><head><title>Tide</title>{head}</head><body><nav><a href="/">Home</a></nav>
<main><article><h1>Tide</h1><p>{words}</p><p>{words}</p><p><img src="/tide.png" alt="Tide"><script>x()</script></p>
<p>{further}</p></article></main><footer>Imprint and cookies</footer></body></html>"""
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
CHAPTERS = {"version": "1.2.0", "chapters": [{"startTime": 0, "title": "Start"}, {"startTime": 61.5, "title": "Tide"}]}


def page(head: str = "", further: str = FURTHER) -> Behaviour:
    body = PAGE.format(head=head, words=WORDS, further=further).encode()
    return answer("200 OK", "Content-Type: text/html", body=body)


def item(link: str = "", text: str = "The tide…", more: str = "") -> str:
    place = f"<link>{link}</link>" if link else ""
    return f"<item><guid>1</guid><title>Tide</title>{place}<description>{text}</description>{more}</item>"


def rss(*items: str, site: str = "") -> bytes:
    about = f"<title>Harbour</title><link>{site}</link>"
    return (
        '<rss version="2.0" xmlns:podcast="https://podcastindex.org/namespace/1.0">'
        f"<channel>{about}{''.join(items)}</channel></rss>"
    ).encode()


def fetch_supplements(now: datetime | None = None) -> None:
    """Hands over the due ones, and returns once they have come back."""
    supplement_task.hand_over_supplements(now or datetime.now(UTC))
    wait_until(lambda: not stores.fast_client("state").keys("retry:{0}:claim:fetch:supplement:*"))


def shown() -> ParsedEntry:
    row = Entry.objects.select_related("feed").get()
    return page_entries.load_entry(row, page_entries.find_origin(row.feed))


def article_row() -> Supplement:
    return Supplement.objects.get(kind=supplements.ARTICLE)


def asked(origin: Origin, path: str) -> int:
    return sum(one.target == path for one in origin.asked)


@pytest.fixture(autouse=True)
def _robots(origin: Origin) -> None:
    origin.does("/robots.txt", answer("404 Not Found"))


@pytest.fixture
def full(origin: Origin) -> Feed:
    """A feed with an excerpt, whose articles are to be fetched."""
    link = origin.does("/tide", page())
    one = subscribe(origin.does("/f", feed(rss(item(link)))), "a", full_content=True)
    gather()
    return one


def test_the_article_of_an_excerpt_is_shown_with_the_excerpt_as_its_summary(full: Feed, origin: Origin) -> None:
    version = Feed.objects.get().version
    fetch_supplements()
    found = shown()
    assert WORDS.strip() in found.content
    assert FURTHER.strip() in found.content
    assert origin.url("/tide.png") in found.content
    assert "script" not in found.content
    assert "Imprint" not in found.content
    assert found.summary == "The tide…"
    assert Entry.objects.get().data["content"] == "The tide…"
    assert "the moon pulls" in Entry.objects.get().text
    assert Entry.objects.get().size > len(found.content)
    assert Feed.objects.get().version > version
    assert (article_row().due_at, article_row().reason) == (None, "")


def test_an_entry_is_judged_by_its_article_as_well(full: Feed) -> None:
    EntryFilter.objects.create(feed=full, words='"the moon pulls"')
    fetch_supplements()
    assert Entry.objects.get().filtered_at is not None


def test_an_article_that_comes_or_goes_is_a_change_for_programs(full: Feed, origin: Origin) -> None:
    seen = [give_numbers()]
    fetch_supplements()
    seen.append(give_numbers())
    Feed.objects.update(full_content=False)
    supplements.switch_articles(full.pk, datetime.now(UTC))
    fetch_supplements()
    seen.append(give_numbers())
    assert "full" not in Entry.objects.get().data
    assert seen == sorted(set(seen))


def give_numbers() -> int:
    """Numbers what has changed; the number of the only entry's last change."""
    numbers.number_changes(datetime.now(UTC))
    return Entry.objects.get().change_number or 0


def test_an_extraction_is_no_change_of_the_feed(full: Feed, origin: Origin) -> None:
    fetch_supplements()
    before = Entry.objects.get().changed_at
    due_again(full)
    origin.does("/f", feed(rss(item(origin.url("/tide"))) + b"<!-- another body -->"))
    gather()
    fetch_supplements(datetime.now(UTC) + timedelta(days=1))
    assert (Entry.objects.get().changed_at, asked(origin, "/tide")) == (before, 1)
    assert FURTHER.strip() in shown().content


def test_a_changed_entry_keeps_its_article_until_it_is_extracted_anew(full: Feed, origin: Origin) -> None:
    fetch_supplements()
    due_again(full)
    origin.does("/f", feed(rss(item(origin.url("/tide"), "The tide, corrected…"))))
    origin.does("/tide", page(further="Corrected: it is the moon alone. " * 4))
    gather()
    assert (shown().summary, FURTHER.strip() in shown().content) == ("The tide, corrected…", True)
    assert all(words in Entry.objects.get().text for words in ("tide corrected", "the moon pulls"))
    fetch_supplements()
    assert (asked(origin, "/tide"), "Corrected: it is" in shown().content) == (2, True)


def test_searches_find_an_article_for_as_long_as_its_page_has_it(full: Feed, origin: Origin) -> None:
    fetch_supplements()
    origin.does("/tide", answer("200 OK", "Content-Type: text/html", body=b"<p>Sold.</p>"))
    article_row_is_due = Supplement.objects.filter(kind=supplements.ARTICLE)
    article_row_is_due.update(due_at=datetime.now(UTC) - timedelta(seconds=1))
    wait_until(lambda: not stores.fast_client("state").keys("retry:{0}:*:fetch:supplement:*"))
    fetch_supplements()
    assert (shown().content, "moon" in Entry.objects.get().text) == ("The tide…", False)


def test_an_entry_that_is_whole_in_the_feed_by_now_is_shown_by_its_feed(full: Feed, origin: Origin) -> None:
    fetch_supplements()
    due_again(full)
    origin.does("/f", feed(rss(item(origin.url("/tide"), "All of it, in the feed. " * 200))))
    gather()
    assert shown().content.startswith("All of it")


def test_a_page_without_more_text_leaves_the_feeds_own(origin: Origin) -> None:
    link = origin.does("/tide", page())
    subscribe(origin.does("/f", feed(rss(item(link, WORDS * 4 + "…")))), "a", full_content=True)
    gather()
    fetch_supplements()
    assert "full" not in Entry.objects.get().data
    assert article_row().reason == "The page has no more text than the feed."


@pytest.mark.parametrize(
    ("behaviour", "is_given_up", "reason"),
    [
        (answer("404 Not Found"), True, "404"),
        (answer("500 Oops"), False, "500"),
        (answer("200 OK", "Content-Type: application/pdf", body=b"%PDF"), True, "It is not a web page."),
        (answer("200 OK", "Content-Type: text/html", body=b"<html><body></body></html>"), True, "No article was found"),
    ],
    ids=["gone", "down", "no page", "empty"],
)
def test_a_failure_leaves_the_excerpt_and_is_told(
    origin: Origin, behaviour: Behaviour, is_given_up: bool, reason: str
) -> None:
    subscribe(origin.does("/f", feed(rss(item(origin.does("/tide", behaviour))))), "a", full_content=True)
    gather()
    fetch_supplements()
    row = article_row()
    assert (shown().content, row.due_at is None) == ("The tide…", is_given_up)
    assert reason in row.reason


def test_a_server_that_stays_down_is_asked_ever_more_seldom_and_given_up(full: Feed) -> None:
    waits = []
    for _ in range(supplements.MAX_TRIES):
        now = datetime.now(UTC)
        supplement_task.settle_outcome(article_row(), failed(), now)
        due_at = article_row().due_at
        waits.append(due_at and due_at - now)
    assert waits == [timedelta(hours=1), timedelta(hours=4), timedelta(hours=16), None]


def failed() -> FetchFailed:
    return FetchFailed(Failure.TRANSIENT, "It answered 500", OutcomeTiming(0, 0))


def test_a_page_that_takes_too_long_to_read_is_given_up_and_the_next_one_is_read(
    settings: Settings, full: Feed, origin: Origin
) -> None:
    settings.FEEDS_READ_SECONDS = 0.001
    supplement_task.settle_outcome(article_row(), fetched(PAGE), datetime.now(UTC))
    assert article_row().reason == "It takes too long to read."
    settings.FEEDS_READ_SECONDS = 20
    supplement_task.settle_outcome(article_row(), fetched(PAGE), datetime.now(UTC))
    assert FURTHER.strip() in shown().content


def fetched(page: str) -> Fetched:
    body = page.format(head="", words=WORDS, further=FURTHER).encode()
    head = Head(200, "https://example.org/tide", CIMultiDict(), content_type="text/html")
    return Fetched(head, Body(len(body), "", body), OutcomeTiming(0, 0))


def test_articles_are_fetched_once_the_feed_is_switched_to_them_and_removed_afterwards(origin: Origin) -> None:
    link = origin.does("/tide", page())
    one = subscribe(origin.does("/f", feed(rss(item(link)))), "a")
    gather()
    fetch_supplements()
    assert asked(origin, "/tide") == 0

    def switch(*, on: bool) -> None:
        edit = FeedEdit(FeedLocation(one.url), None, {"full_content": on})
        catalogue.edit_feed(one.pk, edit, datetime.now(UTC))

    switch(on=True)
    fetch_supplements()
    assert FURTHER.strip() in shown().content
    switch(on=False)
    assert shown().content == "The tide…"
    supplement_task.hand_over_supplements(datetime.now(UTC))
    assert "full" not in Entry.objects.get().data
    assert "the moon pulls" not in Entry.objects.get().text
    assert not Supplement.objects.filter(kind=supplements.ARTICLE).exists()


def test_of_one_feed_a_few_articles_are_fetched_by_a_scan(origin: Origin) -> None:
    items = "".join(
        f"<item><guid>{number}</guid><link>{origin.url('/')}{number}</link><description>Cut…</description></item>"
        for number in range(80)
    )
    subscribe(origin.does("/f", feed(rss(items))), "a", full_content=True)
    gather()
    rows = Supplement.objects.filter(kind=supplements.ARTICLE)
    assert rows.count() == supplements.MAX_WANTED
    assert rows.filter(due_at__lte=datetime.now(UTC)).count() == supplements.PER_SCAN


def test_of_one_host_a_few_pages_are_fetched_by_a_scan(monkeypatch: pytest.MonkeyPatch, origin: Origin) -> None:
    monkeypatch.setattr(supplement_task, "MAX_OF_A_HOST", 2)
    links = [origin.does(f"/{number}", page()) for number in range(3)]
    items = [f"<item><guid>{link}</guid><link>{link}</link><description>Cut…</description></item>" for link in links]
    subscribe(origin.does("/f", feed(rss(*items))), "a", full_content=True)
    gather()
    now = datetime.now(UTC)
    assert supplement_task.hand_over_supplements(now) == 2
    wait_until(lambda: Supplement.objects.filter(due_at=None).count() == 2)
    (late,) = Supplement.objects.filter(due_at__isnull=False, kind=supplements.ARTICLE)
    assert late.due_at == now + timedelta(minutes=1)


class Frontier:
    """Takes what is handed over, and fetches nothing."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.outcome: EnqueueOutcome = WorkEnqueued(0)

    def claim_and_enqueue(self, wanted: dict[int, QueuedWork], *, refresh: bool, write_rows: Any) -> dict[int, Any]:
        if isinstance(self.outcome, WorkEnqueued):
            write_rows(list(wanted), [])
            self.taken += [str(each.work.arguments[0]) for each in wanted.values()]
        return dict.fromkeys(wanted, self.outcome)

    def hand_over(self, now: datetime) -> list[str]:
        self.taken.clear()
        supplement_task.hand_over_supplements(now)
        return sorted(self.taken)


@pytest.fixture
def frontier(monkeypatch: pytest.MonkeyPatch) -> Frontier:
    found = Frontier()
    monkeypatch.setattr(dispatch, "claim_and_enqueue", found.claim_and_enqueue)
    monkeypatch.setattr(supplement_task, "MAX_OF_A_HOST", 2)
    return found


def want_pages(*urls: str) -> list[str]:
    """Articles of a feed, in the order in which they are due."""
    one = feed_rows.feed("sea", full_content=True)
    for number, url in enumerate(urls):
        row, due_at = feed_rows.add(one, entry(number, link=url)), NOW - timedelta(seconds=100 - number)
        Supplement.objects.create(entry=row, kind=supplements.ARTICLE, url=url, due_at=due_at)
    return list(urls)


@pytest.mark.django_db
def test_a_slow_host_has_a_few_pages_in_hand_and_is_in_no_others_way(frontier: Frontier) -> None:
    *slow, other = want_pages(*(f"https://www{number}.example.net/" for number in range(7)), "https://example.org/")
    minute = timedelta(minutes=1)
    assert frontier.hand_over(NOW) == [other, *slow[:2]]
    assert [frontier.hand_over(NOW + number * minute) for number in (1, 2, 3)] == [[], [], []]
    supplements.end_supplement(Supplement.objects.get(url=slow[0]), NOW)
    (next_one,) = frontier.hand_over(NOW + 5 * minute)
    assert next_one in slow[2:]
    assert len(frontier.hand_over(NOW + 6 * minute)) == 0
    # Those that have been in hand for long are handed over again, and nothing more of the host.
    assert frontier.hand_over(NOW + 11 * minute) == [other, slow[1]]


@pytest.mark.django_db
def test_a_page_that_is_not_taken_takes_no_place_of_its_host(frontier: Frontier) -> None:
    first, *_ = urls = want_pages(*(f"https://slow.example/{number}" for number in range(3)))
    frontier.hand_over(NOW)
    Supplement.objects.filter(url=first).update(due_at=NOW)
    frontier.outcome = OriginBusy(3600)
    frontier.hand_over(NOW)
    frontier.outcome = WorkEnqueued(0)
    assert frontier.hand_over(NOW + timedelta(minutes=1)) == urls[2:]


def test_the_delay_that_a_host_asks_robots_for_holds_for_pages(full: Feed, origin: Origin) -> None:
    assert supplement_task.TASK.obeys_robots
    fetch_supplements()
    assert asked(origin, "/robots.txt") == 1
    assert asked(origin, "/tide") == 1


def test_a_file_of_chapters_is_fetched_and_kept_when_the_entry_changes(origin: Origin) -> None:
    body = json.dumps(CHAPTERS).encode()
    url = origin.does("/chapters.json", answer("200 OK", "Content-Type: application/json+chapters", body=body))
    more = f'<podcast:chapters url="{url}" type="application/json+chapters"/>'
    one = subscribe(origin.does("/f", feed(rss(item(more=more)))), "a")
    gather()
    fetch_supplements()
    assert [(each.start, each.title) for each in shown().chapters] == [(0.0, "Start"), (61.5, "Tide")]
    due_again(one)
    origin.does("/f", feed(rss(item(more=more, text="Edited"))))
    gather()
    assert len(shown().chapters) == 2


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"chapters": 5}', b"[" * 100_000])
def test_a_file_of_no_chapters_is_given_up(origin: Origin, body: bytes) -> None:
    url = origin.does("/chapters.json", answer("200 OK", body=body))
    subscribe(origin.does("/f", feed(rss(item(more=f'<podcast:chapters url="{url}"/>')))), "a")
    gather()
    fetch_supplements()
    row = Supplement.objects.get(kind=supplements.CHAPTERS)
    assert row.due_at is None
    assert row.reason.startswith("The file of chapters")


def icon() -> str:
    return Feed.objects.get().icon


def test_the_icon_that_the_sites_page_declares_is_the_feeds(origin: Origin) -> None:
    head = '<link rel="icon" sizes="16x16" href="/s.png"><link rel="icon" sizes="48x48" href="/m.png">'
    site = origin.does("/site", page(head))
    subscribe(origin.does("/f", feed(rss(item(), site=site))), "a")
    gather()
    version = Feed.objects.get().version
    fetch_supplements()
    assert icon() == origin.url("/m.png")
    assert Feed.objects.get().version > version
    assert asked(origin, "/m.png") == 0, "it is mirrored when a page shows it"
    row = Supplement.objects.get(kind=supplements.ICON)
    assert row.due_at is not None
    assert row.due_at > datetime.now(UTC) + timedelta(days=29)


@pytest.mark.parametrize("is_there", [True, False])
def test_without_one_the_usual_file_is_taken_if_it_is_a_picture(origin: Origin, is_there: bool) -> None:
    site = origin.does("/site", page())
    origin.does("/favicon.ico", answer(body=PNG if is_there else b"<html>No such page"))
    about = f"{site}</link><image><url>{origin.url('/logo.png')}</url></image><link>"
    subscribe(origin.does("/f", feed(rss(item(), site=about))), "a")
    gather()
    fetch_supplements()
    fetch_supplements()
    assert icon() == origin.url("/favicon.ico" if is_there else "/logo.png")
    row = Supplement.objects.get(kind=supplements.ICON)
    assert (row.url, row.tries) == ("", 0 if is_there else 1)


def test_no_page_is_fetched_for_the_icon_of_a_hidden_feed(origin: Origin) -> None:
    site = origin.does("/site", page('<link rel="icon" href="/i.png">'))
    subscribe(origin.does("/f", feed(rss(item(), site=site))), "a", is_hidden=True)
    gather()
    fetch_supplements()
    assert (icon(), asked(origin, "/site")) == ("", 0)


def test_rows_of_a_deleted_entry_are_removed(full: Feed) -> None:
    Entry.objects.all()._raw_delete("default")
    fetch_supplements()
    assert not Supplement.objects.filter(kind=supplements.ARTICLE).exists()


def test_nothing_is_handed_over_twice(full: Feed, origin: Origin) -> None:
    now = datetime.now(UTC)
    assert supplement_task.hand_over_supplements(now) == 1
    assert supplement_task.hand_over_supplements(now) == 0
    wait_until(lambda: article_row().due_at is None)
    assert scan() == 0
