"""`import_opml`, `export_opml` and `feed_plan`: their changes, messages, refusals and output."""

import io
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from feeds import addresses, catalogue, opml
from feeds.addresses import FeedLocation
from feeds.models import Category, Feed
from feeds.opml import FeedList
from tests.support import plain_feeds
from tests.support.feed_scans import subscribe
from tests.support.plain_feeds import NOW

pytestmark = pytest.mark.django_db

LIST = """<opml version="2.0"><head><title>Mine</title></head><body>
<outline text="News"><outline text="Europe">
  <outline type="rss" text="One" xmlUrl="https://one.example/feed" htmlUrl="https://one.example/"
    description="All &lt;b&gt;of&lt;/b&gt; one" language="en"/>
  <outline type="rss" text="Two" xmlUrl="http://two.example/feed"/>
</outline></outline>
<outline type="rss" text="Two once more" xmlUrl="https://two.example/feed" category="/Daily"/>
</body></opml>"""


def imported(path: Path, text: str = LIST, *arguments: str, **options: object) -> str:
    path.write_text(text)
    said = io.StringIO()
    call_command("import_opml", str(path), *arguments, stdout=said, stderr=said, **options)
    return said.getvalue()


def exported(*arguments: str) -> str:
    said = io.StringIO()
    call_command("export_opml", *arguments, stdout=said)
    return said.getvalue()


def read(text: str) -> FeedList:
    return opml.parse_opml(text.encode())


def test_a_list_brings_feeds_and_nested_categories_once(tmp_path: Path) -> None:
    said = imported(tmp_path / "list.opml")
    assert "Feeds added: 2, already present: 0." in said
    assert "Duplicate outlines: 1." in said
    two = Feed.objects.get(slug="two")
    assert sorted(category.title for category in two.categories.all()) == ["Daily", "Europe"]
    assert Category.objects.get(title="Europe").parent == Category.objects.get(title="News")
    before = list(Feed.objects.values())
    assert "Feeds added: 0, already present: 2." in imported(tmp_path / "list.opml")
    assert list(Feed.objects.values()) == before


def test_a_dry_run_only_says_what_would_be_done(tmp_path: Path) -> None:
    plain_feeds.feed("one")
    said = imported(tmp_path / "list.opml", LIST, "--dry-run", verbosity=2)
    assert "http://two.example/feed  Two" in said
    assert "Feeds to add: 1, already present: 1." in said
    assert Feed.objects.count() == 1
    assert not Category.objects.filter(title="News").exists()


def test_an_unknown_user_stops_it_before_anything_is_added(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no user “nobody”"):
        imported(tmp_path / "list.opml", LIST, "--follow", "nobody")
    assert not Feed.objects.exists()


def test_what_is_left_out_is_named_and_makes_the_command_fail(tmp_path: Path) -> None:
    said = io.StringIO()
    path = tmp_path / "list.opml"
    path.write_text(LIST.replace('text="One" xmlUrl="https', 'text="One" xmlUrl="gopher'))
    with pytest.raises(CommandError, match="Outlines skipped: 1") as raised:
        call_command("import_opml", str(path), stdout=io.StringIO(), stderr=said)
    assert raised.value.returncode == 1
    assert "line 3: One: Only http and https" in said.getvalue()
    assert Feed.objects.count() == 1


@pytest.mark.parametrize(("name", "why"), [("list.opml", r"^This .*\.$"), ("nowhere.opml", "No such file")])
def test_what_is_no_list_or_not_there_is_said_clearly(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "list.opml").write_text("no list")
    with pytest.raises(CommandError, match=why):
        call_command("import_opml", str(tmp_path / name))


def test_an_import_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "FEEDS_PER_PART", 1)
    next(catalogue.import_list(read(LIST), None, NOW))
    assert Feed.objects.count() == 1
    assert "Feeds added: 1, already present: 1" in imported(tmp_path / "list.opml")


def test_without_a_terminal_progress_is_told_in_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "FEEDS_PER_PART", 10)
    outlines = "".join(f'<outline type="rss" xmlUrl="https://{n}.example/"/>' for n in range(120))
    said = imported(tmp_path / "list.opml", f"<opml><body>{outlines}</body></opml>")
    assert said.splitlines()[:2] == ["50 of 120 feeds", "100 of 120 feeds"]


def test_a_list_that_was_written_brings_the_same_again(tmp_path: Path) -> None:
    imported(tmp_path / "list.opml")
    written = exported()
    Feed.objects.all().delete()
    Category.objects.exclude(slug="all").delete()
    imported(tmp_path / "again.opml", written)
    again = read(exported()).subscriptions
    assert again == read(written).subscriptions
    assert {each.address.key: each for each in again} == {each.address.key: each for each in read(LIST).subscriptions}


def test_one_category_is_written_with_those_below_it(tmp_path: Path) -> None:
    imported(tmp_path / "list.opml")
    plain_feeds.feed("three")
    urls = {each.address.url for each in read(exported("--category", "news")).subscriptions}
    assert urls == {"https://one.example/feed", "http://two.example/feed"}
    assert [each.title for each in read(exported("--category", "daily")).subscriptions] == ["Two"]
    assert len(read(exported("--category", "all")).subscriptions) == 3


def test_a_user_follows_all_of_a_list_and_what_a_user_follows_is_written(tmp_path: Path) -> None:
    plain_feeds.user("me")
    for name in ("one", "three"):
        plain_feeds.feed(name)
    assert "Newly followed: 2." in imported(tmp_path / "list.opml", LIST, "--follow", "me")
    assert len(read(exported("--followed-by", "me")).subscriptions) == 2
    assert sorted(Feed.objects.values_list("subscriber_count", flat=True)) == [0, 1, 1]


@pytest.mark.parametrize("arguments", [("--category", "none"), ("--followed-by", "nobody")])
def test_what_there_is_not_cannot_be_written(arguments: tuple[str, str]) -> None:
    with pytest.raises(CommandError, match="There is no"):
        exported(*arguments)


def test_passwords_are_written_when_that_is_asked_for_into_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.opml"
    path.write_text("old")
    address = addresses.read_address("https://me:p%2Fw%2541@one.example/feed")
    catalogue.add_feed(address, now=NOW)
    assert read(exported()).subscriptions[0].address == FeedLocation(address.url)
    assert ": 1." in exported(str(path), "--with-passwords")
    assert path.stat().st_mode & 0o077 == 0
    assert read(path.read_text()).subscriptions[0].address == address
    assert [each.name for each in tmp_path.iterdir()] == ["out.opml"]


def test_a_password_whose_key_is_gone_is_left_out() -> None:
    plain_feeds.feed("one", user="me", sealed_password="broken")
    assert read(exported("--with-passwords")).subscriptions[0].address.password == ""


def planned(*arguments: str) -> str:
    said = io.StringIO()
    call_command("feed_plan", "--gap", "0", "--slots", "3", *arguments, stdout=said)
    return said.getvalue()


@pytest.fixture
def worked_example() -> None:
    """Nine feeds of nine hosts, whose batches of three take 43 s as they are due, and 34 s the shortest first."""
    for place, seconds in enumerate([3, 10, 4, 13, 9, 2, 11, 20, 8]):
        due_at = f"2026-01-01T00:00:0{place}Z"
        subscribe(f"https://h{place}.example/", expected_seconds=seconds, last_seconds=1.0, next_check_at=due_at)


@pytest.mark.usefixtures("worked_example")
def test_a_plan_has_what_is_fetched_in_its_order_and_compares_it_with_batches() -> None:
    said = planned()

    assert re.search(r"^ +1 +20\.00s +0\.0s  https://h7\.example/$", said, re.MULTILINE)
    assert "9 feeds, 3 at once" in said
    assert "Expected in all: 80.0 s of fetching." in said
    assert "Lower bound: 26.7 s, since all slots are busy all the time." in said
    assert re.search(r"this order: +28\.0 s, 1\.050 × the bound", said)
    assert re.search(r"batches of 3, shortest first: +34\.0 s, 1\.275 × the bound", said)
    assert re.search(r"batches of 3, as given: +43\.0 s, 1\.612 × the bound", said)


@pytest.mark.usefixtures("worked_example")
def test_a_replay_goes_by_what_was_expected_and_takes_what_it_took() -> None:
    said = planned("--simulate")

    assert re.search(r"^ +1 +20\.00s +1\.00s +0\.0s  https://h7\.example/$", said, re.MULTILINE)
    assert re.search(r"this order: +3\.0 s, 1\.000 × the bound", said)


@pytest.mark.usefixtures("worked_example")
def test_a_replay_has_a_round_for_each_recorded_fetch() -> None:
    one = Feed.objects.get(url="https://h7.example/")
    for day, seconds, outcome in ((1, 40.0, "fetched"), (2, 30.0, "not modified"), (3, 99.0, "throttled")):
        plain_feeds.timing(one, seconds, outcome, datetime(2026, 1, day, tzinfo=UTC))
    said = planned("--simulate")

    # The figures leave out fetches that were cut off.
    assert re.search(r"^ +1 +20\.00s +30\.00s +0\.0s  https://h7\.example/$", said, re.MULTILINE)
    assert "2 rounds of recorded fetches" in said
    assert "rounds" not in planned("--simulate", "--rounds", "1")


def test_only_what_is_due_is_planned_unless_all_are_wanted() -> None:
    subscribe("https://a.example/", next_check_at="2999-01-01T00:00Z")
    subscribe("https://b.example/", paused=True)
    subscribe("https://c.example/", flagged_at="2026-01-01T00:00Z")

    assert re.findall(r"https\S+", planned()) == ["https://c.example/"]
    assert "https://c.example/ (flagged)" in planned()
    assert sorted(re.findall(r"https\S+", planned("--all"))) == ["https://a.example/", "https://c.example/"]
    assert not Feed.objects.exclude(handed_over_at=None).exists()
    Feed.objects.update(paused=True)
    assert "0 feeds" in planned()
