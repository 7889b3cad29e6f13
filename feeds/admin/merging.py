"""Makes one feed of several from the admin, after a page that asks which one is kept: it cannot be taken back."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from resources import words

from ..keeping import health, merging
from ..models import Entry, Feed

MOST = 50
NOT_ONE = "These share no entry. Are they really one feed?"


@dataclass(frozen=True, slots=True)
class Choice:
    """A feed that may be kept, with what speaks for it."""

    feed: Feed
    word: str
    entries: int
    fetched: str


def ask_or_merge(
    model_admin: admin.ModelAdmin,  # type: ignore[type-arg]
    request: HttpRequest,
    queryset: QuerySet[Feed],
) -> TemplateResponse | None:
    """The page that asks; None once they are merged, or where there is nothing to merge."""
    rows = list(queryset[: MOST + 1])
    if not 2 <= len(rows) <= MOST:
        model_admin.message_user(request, f"Choose from two to {MOST} feeds that are one.", messages.WARNING)
        return None
    kept = next((feed for feed in rows if str(feed.pk) == request.POST.get("kept")), None)
    if kept is not None:
        number = merging.merge(kept.pk, [feed.pk for feed in rows], datetime.now(UTC))
        others = ", ".join(feed.url for feed in rows if feed.pk != kept.pk)
        model_admin.log_change(request, kept, f"Merged with {others}."[:2000])
        model_admin.message_user(request, f"Merged into “{kept}”: {number}.")
        return None
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Merge feeds?",
        "opts": model_admin.opts,
        "choices": _choices(rows, datetime.now(UTC)),
        "warning": "" if _shares(rows) else NOT_ONE,
    }
    return TemplateResponse(request, "admin/feeds/feed/merge.html", context)


def _choices(rows: Sequence[Feed], now: datetime) -> list[Choice]:
    """The one that had better be kept first: it goes well, it is read, it has the most."""
    counts = Entry.objects.filter(feed__in=rows).order_by().values("feed_id").annotate(number=Count("pk"))
    entries: dict[int, int] = dict(counts.values_list("feed_id", "number"))
    ordered = sorted(rows, key=lambda feed: _worth(feed, entries.get(feed.pk, 0)), reverse=True)
    return [
        Choice(feed, health.word(feed), entries.get(feed.pk, 0), words.ago(feed.fetched_at, now)) for feed in ordered
    ]


def _worth(feed: Feed, entries: int) -> tuple[bool, int, int, int]:
    return health.word(feed) == "well", feed.subscriber_count, entries, -feed.pk


def _shares(rows: Sequence[Feed]) -> bool:
    """Whether any two of them have an entry in common, or one has none at all."""
    pairs = set(Entry.objects.filter(feed__in=rows).order_by().values_list("feed_id", "likeness"))
    has_entries, likenesses = {feed_id for feed_id, _ in pairs}, {likeness for _, likeness in pairs}
    return len(has_entries) < len(rows) or len(likenesses) < len(pairs)
