"""The page of a feed: its state and the reasons for it, a chart of its last fetches, its entries, its moves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from resources import charts, humanize
from resources.charts import Chart, ChartBar, Plot
from resources.fetch.admin import domain_page
from resources.fetch.models import FetchDomain, FetchTiming
from resources.fetch.timings import digest_url

from .. import health, supplements
from ..models import Entry, Feed, Move
from ..parser import markup as parser_markup

MAX_CHART_FETCHES = 60
"""The number of fetches in a chart. A bar has the same width however few there are."""

KIND_NEW, KIND_SAME, KIND_FAILED = "new", "same", "failed"
KIND_NAMES = {KIND_NEW: "downloaded", KIND_SAME: "not modified", KIND_FAILED: "failed"}
_KIND_BY_OUTCOME = {"fetched": KIND_NEW, "dropped": KIND_NEW, "not modified": KIND_SAME}


@dataclass(frozen=True, slots=True)
class ChartedFetch:
    at: datetime
    seconds: float
    size: int
    outcome: str
    status: int | None

    @property
    def kind(self) -> str:
        return outcome_kind(self.outcome)

    @property
    def result(self) -> str:
        return self.outcome + ("" if self.status is None else f" ({self.status})")

    @property
    def is_busy(self) -> bool:
        return True


def outcome_kind(outcome: str) -> str:
    return _KIND_BY_OUTCOME.get(outcome, KIND_FAILED)


def draw_feed_chart(fetches: Sequence[ChartedFetch]) -> Chart[ChartedFetch]:
    """Draws the chart of fetches, given the latest first."""
    rows = tuple(reversed(fetches[:MAX_CHART_FETCHES]))
    milliseconds = max((one.seconds for one in rows), default=0) * 1000  # most fetches take less than a second
    top = charts.axis_top(milliseconds) / 1000
    return Chart(
        plots=(Plot("fetch", f"{charts.format_reach(top)} s", tuple(_chart_bars(rows, top))),),
        times=(rows[0].at, rows[-1].at) if rows else (),
        rows=rows,
        summary=_chart_summary(rows),
    )


def _chart_bars(rows: Sequence[ChartedFetch], top: float) -> Iterator[ChartBar]:
    left = MAX_CHART_FETCHES - len(rows)
    for index, one in enumerate(rows, left):
        label = f"{one.at:%-d %b %H:%M} UTC: {one.result}, {one.seconds:.2f} s, {humanize.format_size(one.size)}"
        yield charts.upright_bar(index, MAX_CHART_FETCHES, one.seconds / top, label, kind=one.kind, least=2.0)


def _chart_summary(rows: Sequence[ChartedFetch]) -> str:
    if not rows:
        return "No recent fetches."
    counts = {kind: sum(one.kind == kind for one in rows) for kind in KIND_NAMES}
    parts = ", ".join(f"{number} {KIND_NAMES[kind]}" for kind, number in counts.items() if number)
    mean = sum(one.seconds for one in rows) / len(rows)
    which = "Last fetch" if len(rows) == 1 else f"Last {len(rows)} fetches"
    return f"{which}: {parts}; {mean:.2f} s on average, {humanize.format_size(sum(one.size for one in rows))} in all."


MAX_SHOWN_ENTRIES = 10
MAX_SHOWN_MOVES = 20
MAX_SHOWN_MISSING = 20
EXCERPT_CHARACTERS = 240
_MAX_EXCERPTED_CHARACTERS = 5000


@dataclass(frozen=True, slots=True)
class EntryPreview:
    """An entry of the preview. `excerpt` is text, and cut."""

    title: str
    link: str
    when: str
    excerpt: str
    has_left: bool


def page_context(feed: Feed, now: datetime, *, is_filtered: bool = False) -> dict[str, Any]:
    """The page's values; with `is_filtered`, its entries are those that filters hide."""
    is_queued = feed.handed_over_at is not None and not feed.paused
    waiting = domain_page.read_domain_report(feed.host) if is_queued else None
    made = list(Move.objects.filter(feed=feed)[:MAX_SHOWN_MOVES])
    return {
        "word": health.health_label(feed),
        "trouble": health.trouble_words(feed),
        "sentences": health.explain_schedule(feed, now),
        "queue": waiting.sentences[0] if waiting else "",
        "facts": list(health.feed_facts(feed, now)),
        "chart": load_feed_chart(feed),
        "entries": latest_entries(feed, now, is_filtered=is_filtered),
        "is_filtered": is_filtered,
        "has_filtered": is_filtered or Entry.objects.filter(feed=feed, filtered_at__isnull=False).exists(),
        "missing_articles": list(supplements.missing_articles(feed.pk)[:MAX_SHOWN_MISSING]),
        "moves": made,
        "last_move": next((one for one in made if one.undone_at is None and one.new_url == feed.url), None),
        "moving": str(feed.moving.get("url", "")),
        "elsewhere": [each for each in feed.discovered if each.get("url") != feed.url],
        "domain": FetchDomain.objects.filter(scope=feed.host).first(),
        "formats": ("atom", "rss", "json"),
        "privacy": health.privacy_words(feed),
    }


def load_feed_chart(feed: Feed) -> Chart[ChartedFetch]:
    rows = FetchTiming.objects.filter(url_digest=digest_url(feed.url)).order_by("-started_at")
    names = ("started_at", "seconds", "wire_bytes", "outcome", "status")
    return draw_feed_chart([ChartedFetch(*row) for row in rows.values_list(*names)[:MAX_CHART_FETCHES]])


def latest_entries(feed: Feed, now: datetime, *, is_filtered: bool) -> list[EntryPreview]:
    rows = Entry.objects.filter(feed=feed, filtered_at__isnull=not is_filtered).only(
        "title", "link", "data", "happened_at", "left_at", "identity"
    )
    return [
        EntryPreview(
            entry.title or entry.link or "Untitled",
            entry.link if entry.link.startswith(("http://", "https://")) else "",
            humanize.format_ago(entry.happened_at, now),
            _excerpt(entry),
            entry.left_at is not None,
        )
        for entry in rows[:MAX_SHOWN_ENTRIES]
    ]


def _excerpt(entry: Entry) -> str:
    markup = str(entry.data.get("summary") or entry.data.get("content") or "")
    text = parser_markup.html_to_text(markup[:_MAX_EXCERPTED_CHARACTERS])
    return text if len(text) <= EXCERPT_CHARACTERS else text[:EXCERPT_CHARACTERS].rpartition(" ")[0] + " …"
