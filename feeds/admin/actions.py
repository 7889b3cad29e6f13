"""The actions on feeds in the admin: fetch, pause, move, merge, export, and the import of a list (OPML).

Each reports its result. Merging asks for the feed to keep, since it cannot be undone; the import can show its
changes first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import actions
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import AbstractBaseUser
from django.core.files.base import File
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from resources import humanize

from .. import catalogue, feed_rows, followers, health, lifecycle, opml
from ..catalogue import ImportResult
from ..errors import FeedAddressError, FeedError, MoveError, OpmlError
from ..models import Entry, Feed, Move
from ..opml import FeedList, OpmlLimits

MAX_IMPORTED_FEEDS = 5_000
"""More would keep the browser waiting for too long."""
MAX_SHOWN_OUTLINES = 100


class OpmlImportForm(forms.Form):
    file = forms.FileField(label="OPML file")
    follow = forms.BooleanField(required=False, label="Follow these feeds")
    dry_run = forms.BooleanField(required=False, initial=True, label="Preview only")

    found: FeedList | None = None

    def clean_file(self) -> "File[bytes]":
        file = cast("File[bytes]", self.cleaned_data["file"])
        try:
            found = opml.parse_opml(file.read(OpmlLimits().max_bytes + 1))
        except OpmlError as error:
            raise forms.ValidationError(str(error)) from error
        if len(found.subscriptions) > MAX_IMPORTED_FEEDS:
            raise forms.ValidationError(
                f"This list has {len(found.subscriptions):,} feeds; the admin imports at most {MAX_IMPORTED_FEEDS:,}. "
                "Import longer lists by `manage.py import_opml`."
            )
        self.found = found
        return file


def ask_or_import(model_admin: admin.ModelAdmin, request: HttpRequest) -> HttpResponse:  # type: ignore[type-arg]
    """Answers the page with the form, and the changes that it would make; redirects once they are made."""
    form = OpmlImportForm(request.POST or None, request.FILES or None)
    context: dict[str, Any] = {
        **model_admin.admin_site.each_context(request),
        "title": "Import OPML",
        "opts": model_admin.opts,
        "form": form,
        "most_shown": MAX_SHOWN_OUTLINES,
    }
    if request.method == "POST" and form.is_valid() and form.found is not None:
        if not form.cleaned_data["dry_run"]:
            try:
                _import_list(model_admin, request, form.found, follows=form.cleaned_data["follow"])
            except FeedError as error:
                model_admin.message_user(request, f"{error} Feeds added before that stay.", messages.ERROR)
            return HttpResponseRedirect(reverse("admin:feeds_feed_changelist"))
        new, known = catalogue.preview_import(form.found)
        context |= {"found": form.found, "new": new[:MAX_SHOWN_OUTLINES], "new_in_all": len(new), "known": known}
    return TemplateResponse(request, "admin/feeds/feed/import.html", context)


def _import_list(
    model_admin: admin.ModelAdmin,  # type: ignore[type-arg]
    request: HttpRequest,
    found: FeedList,
    *,
    follows: bool,
) -> None:
    follower = cast(AbstractBaseUser, request.user).pk if follows else None
    done = sum(catalogue.import_list(found, follower, datetime.now(UTC)), ImportResult())
    counts = f"Feeds added: {done.added:,}, already present: {done.known:,}, duplicates: {found.duplicates:,}."
    model_admin.message_user(request, counts)
    for each in found.left_out[:MAX_SHOWN_OUTLINES]:
        text = f"Skipped, line {each.line}: {each.text or 'Untitled'}. {each.why}"
        model_admin.message_user(request, text, messages.WARNING)


MAX_MERGED_FEEDS = 50
NOT_ONE_WARNING = "These feeds have no entry in common. Are they the same feed?"


@dataclass(frozen=True, slots=True)
class MergeChoice:
    feed: Feed
    word: str
    subscribers: int
    entries: int
    fetched: str


def ask_or_merge(
    model_admin: admin.ModelAdmin,  # type: ignore[type-arg]
    request: HttpRequest,
    queryset: QuerySet[Feed],
) -> TemplateResponse | None:
    """Returns the page that asks; None once the feeds are merged, or if there is nothing to merge."""
    rows = list(queryset[: MAX_MERGED_FEEDS + 1])
    if not 2 <= len(rows) <= MAX_MERGED_FEEDS:
        model_admin.message_user(request, f"Select 2 to {MAX_MERGED_FEEDS} feeds to merge.", messages.WARNING)
        return None
    kept = next((feed for feed in rows if str(feed.pk) == request.POST.get("kept")), None)
    if kept is not None:
        number = lifecycle.merge_feeds(kept.pk, [feed.pk for feed in rows], datetime.now(UTC))
        others = ", ".join(feed.url for feed in rows if feed.pk != kept.pk)
        model_admin.log_change(request, kept, f"Merged with {others}."[:2000])
        model_admin.message_user(request, f"Feeds merged into “{kept}”: {number}.")
        return None
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Merge feeds?",
        "opts": model_admin.opts,
        "choices": _merge_choices(rows, datetime.now(UTC)),
        "warning": "" if _share_entries(rows) else NOT_ONE_WARNING,
    }
    return TemplateResponse(request, "admin/feeds/feed/merge.html", context)


def _merge_choices(rows: Sequence[Feed], now: datetime) -> list[MergeChoice]:
    """The choices, the best first: a healthy feed, then the most subscribers, then the most entries."""
    counts = Entry.objects.filter(feed__in=rows).order_by().values("feed_id").annotate(number=Count("pk"))
    entries: dict[int, int] = dict(counts.values_list("feed_id", "number"))
    subscribers = followers.count_subscribers([feed.pk for feed in rows])
    choices = [
        MergeChoice(
            feed,
            health.health_label(feed),
            subscribers.get(feed.pk, 0),
            entries.get(feed.pk, 0),
            humanize.format_ago(feed.fetched_at, now),
        )
        for feed in rows
    ]
    return sorted(
        choices,
        key=lambda one: (health.health_word(one.feed) != "well", -one.subscribers, -one.entries, one.feed.pk),
    )


def _share_entries(rows: Sequence[Feed]) -> bool:
    """Tells whether any two of them have an entry in common, or one has none at all."""
    pairs = set(Entry.objects.filter(feed__in=rows).order_by().values_list("feed_id", "likeness"))
    has_entries, likenesses = {feed_id for feed_id, _ in pairs}, {likeness for _, likeness in pairs}
    return len(has_entries) < len(rows) or len(likenesses) < len(pairs)


ADOPTED_REASON = "Address updated to its permanent redirect. Checked at once."
CHOSEN_REASON = "Address chosen from the feeds of its web page. Checked at once."
LIST_TITLE = "Feeds"
MAX_ACTED_FEEDS, MAX_MOVED_FEEDS, MAX_EXPORTED_FEEDS = 2_000, 200, 5_000
"""The number of feeds at once: the user waits for it, and so do other requests on the same thread."""
_MAX_NAMED_FEEDS = 10


class FeedActions(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    actions = ("fetch_now", "pause", "resume", "adopt", "bring_back", "merge", "export", "delete_selected")

    @admin.action(description="Fetch now", permissions=["change"])
    def fetch_now(self, request: HttpRequest, queryset: QuerySet[Feed]) -> None:
        paused = queryset.filter(paused=True).count()
        if self._act_on(request, queryset, "Queued for fetching", feed_rows.flag_feeds, paused=False) and paused:
            self.message_user(request, f"Not fetched, because paused: {paused}.", messages.WARNING)

    @admin.action(description="Pause", permissions=["change"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Feed]) -> None:
        self._act_on(request, queryset, "Paused", lifecycle.pause_feeds, paused=False)

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Feed]) -> None:
        self._act_on(request, queryset, "Resumed", lifecycle.resume_feeds, paused=True)

    @admin.action(description="Update address to redirect target", permissions=["change"])
    def adopt(self, request: HttpRequest, queryset: QuerySet[Feed]) -> None:
        self._each(request, queryset.exclude(moving={}), "Address updated to redirect target", _adopt_redirect)

    @admin.action(description="Restore previous address", permissions=["change"])
    def bring_back(self, request: HttpRequest, queryset: QuerySet[Feed]) -> None:
        self._each(request, queryset, "Previous address restored", _undo_last_move)

    @admin.action(description="Merge", permissions=["change", "delete"])
    def merge(self, request: HttpRequest, queryset: QuerySet[Feed]) -> HttpResponse | None:
        return ask_or_merge(self, request, queryset)

    @admin.action(description="Export as OPML")
    def export(self, request: HttpRequest, queryset: QuerySet[Feed]) -> HttpResponse | None:
        """Without users and passwords."""
        if self._are_too_many(request, queryset, MAX_EXPORTED_FEEDS, "manage.py export_opml writes any number."):
            return None
        now = datetime.now(UTC)
        written = opml.write_opml(catalogue.list_subscriptions(queryset.order_by("slug")), LIST_TITLE, now)
        name = f"feeds-{now:%Y-%m-%d}.opml"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return HttpResponse(written, content_type="text/x-opml; charset=utf-8", headers=headers)

    @admin.action(description="Delete", permissions=["delete"])
    def delete_selected(self, request: HttpRequest, queryset: QuerySet[Feed]) -> HttpResponse | None:
        """Django's, which asks first."""
        if self._are_too_many(request, queryset, MAX_ACTED_FEEDS):
            return None
        return actions.delete_selected(self, request, queryset)

    def act(self, request: HttpRequest, feed: Feed, what: str) -> bool:
        """Performs the action of a button of the feed's page. False if there is no such button."""
        rows = Feed.objects.filter(pk=feed.pk)
        buttons = {"fetch": self.fetch_now, "pause": self.pause, "resume": self.resume}
        buttons |= {"adopt": self.adopt, "bring-back": self.bring_back}
        if what == "choose":
            self._each(request, rows, "Address updated", partial(_choose_address, request.POST.get("url", "")))
        elif what in buttons:
            buttons[what](request, rows)
        return what == "choose" or what in buttons

    def _act_on(
        self,
        request: HttpRequest,
        queryset: QuerySet[Feed],
        summary: str,
        do: Callable[[list[int], datetime], object],
        *,
        paused: bool,
    ) -> bool:
        """Performs an action for those of the feeds that are paused, or are not. False if too many are selected."""
        if self._are_too_many(request, queryset, MAX_ACTED_FEEDS):
            return False
        rows = list(queryset.filter(paused=paused))
        do([feed.pk for feed in rows], datetime.now(UTC))
        self._tell(request, summary, rows)
        return True

    def _each(
        self, request: HttpRequest, rows: QuerySet[Feed], summary: str, do: Callable[[Feed, datetime], bool]
    ) -> None:
        """Performs an action for each feed. A failure is reported, and does not stop the others."""
        if self._are_too_many(request, rows, MAX_MOVED_FEEDS):
            return
        done = []
        for feed in rows:
            try:
                if do(feed, datetime.now(UTC)):
                    done.append(feed)
            except (MoveError, FeedAddressError) as error:
                self.message_user(request, f"{feed}: {error}", messages.ERROR)
        if done:
            feed_rows.flag_feeds([feed.pk for feed in done], datetime.now(UTC))
        self._tell(request, summary, done)

    def _are_too_many(self, request: HttpRequest, rows: QuerySet[Feed], most: int, otherwise: str = "") -> bool:
        """Tells whether the feeds are too many; if so, the user gets a message."""
        number = rows.count()
        if number > most:
            refusal = f"{number:,} feeds are selected, and the limit is {most:,}. Nothing was changed. "
            refusal += otherwise or "Filter the list, for example by category."
            self.message_user(request, refusal, messages.ERROR)
        return number > most

    def _tell(self, request: HttpRequest, summary: str, rows: list[Feed]) -> None:
        if not rows:
            self.message_user(
                request, "The action applies to none of the selected feeds. Nothing was changed.", messages.WARNING
            )
            return
        user_id = cast(AbstractBaseUser, request.user).pk
        LogEntry.objects.log_actions(user_id, rows, CHANGE, f"{summary}.")
        names = ", ".join(str(feed) for feed in rows[:_MAX_NAMED_FEEDS])
        more = f" and {len(rows) - _MAX_NAMED_FEEDS:,} more" if len(rows) > _MAX_NAMED_FEEDS else ""
        self.message_user(request, f"{summary}: {names}{more}.")


def _adopt_redirect(feed: Feed, now: datetime) -> bool:
    url = str(feed.moving.get("url", ""))
    return bool(url) and bool(lifecycle.relocate_feed(feed.pk, url, ADOPTED_REASON, now))


def _undo_last_move(feed: Feed, now: datetime) -> bool:
    last = Move.objects.filter(feed=feed, new_url=feed.url, undone_at=None).first()
    return last is not None and lifecycle.undo_move(last.pk, now)


def _choose_address(url: str, feed: Feed, now: datetime) -> bool:
    """Moves the feed to another one that the page at its address announces."""
    if url not in {each.get("url") for each in feed.discovered}:
        return False
    return bool(lifecycle.relocate_feed(feed.pk, url, CHOSEN_REASON, now))
