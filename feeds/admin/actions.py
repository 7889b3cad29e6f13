"""What can be done with feeds, chosen in the list or by a button of a feed's page. Each says what came of it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin import actions
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import AbstractBaseUser
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from ..errors import AddressError, MoveError
from ..keeping import flagging, lists, moves, pausing
from ..models import Feed, Move
from ..opml import writing
from .merging import ask_or_merge

ADOPTED = "It redirects there for good, and was given that address. It is fetched at once."
LIST_TITLE = "Feeds"
MOST_ACTED, MOST_MOVED, MOST_EXPORTED = 2_000, 200, 5_000
"""Feeds at once: who clicked waits for it, and so do others on the same thread."""


class Acting(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    """The actions of the list."""

    actions = ("fetch_now", "pause", "resume", "adopt", "bring_back", "merge", "export", "delete_selected")

    @admin.action(description="Fetch now", permissions=["change"])
    def fetch_now(self, request: HttpRequest, queryset: QuerySet[Feed]) -> None:
        if self._are_too_many(request, queryset, MOST_ACTED):
            return
        rows = list(queryset)
        paused = sum(feed.paused for feed in rows)
        flagging.flag([feed.pk for feed in rows], datetime.now(UTC))
        self._tell(request, "Fetched as soon as their hosts allow", [feed for feed in rows if not feed.paused])
        if paused:
            self.message_user(request, f"Paused, and not fetched: {paused}.", messages.WARNING)

    @admin.action(description="Pause", permissions=["change"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Feed]) -> None:
        if self._are_too_many(request, queryset, MOST_ACTED):
            return
        rows = list(queryset.filter(paused=False))
        pausing.pause([feed.pk for feed in rows], datetime.now(UTC))
        self._tell(request, "Paused", rows)

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Feed]) -> None:
        if self._are_too_many(request, queryset, MOST_ACTED):
            return
        rows = list(queryset.filter(paused=True))
        pausing.resume([feed.pk for feed in rows], datetime.now(UTC))
        self._tell(request, "Fetched again when they are due", rows)

    @admin.action(description="Adopt the address that it redirects to", permissions=["change"])
    def adopt(self, request: HttpRequest, queryset: QuerySet[Feed]) -> None:
        self._each(request, queryset.exclude(moving={}), "Given the address that they redirect to", _adopt)

    @admin.action(description="Bring back to the address before the last move", permissions=["change"])
    def bring_back(self, request: HttpRequest, queryset: QuerySet[Feed]) -> None:
        self._each(request, queryset, "Brought back to the address that they had before", _bring_back)

    @admin.action(description="Merge: they are one feed", permissions=["change", "delete"])
    def merge(self, request: HttpRequest, queryset: QuerySet[Feed]) -> HttpResponse | None:
        return ask_or_merge(self, request, queryset)

    @admin.action(description="Export as OPML")
    def export(self, request: HttpRequest, queryset: QuerySet[Feed]) -> HttpResponse | None:
        """Without users and passwords."""
        if self._are_too_many(request, queryset, MOST_EXPORTED, "manage.py export_opml writes any number."):
            return None
        now = datetime.now(UTC)
        written = writing.write(lists.subscriptions(queryset.order_by("slug")), LIST_TITLE, now)
        name = f"feeds-{now:%Y-%m-%d}.opml"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return HttpResponse(written, content_type="text/x-opml; charset=utf-8", headers=headers)

    @admin.action(description="Delete", permissions=["delete"])
    def delete_selected(self, request: HttpRequest, queryset: QuerySet[Feed]) -> HttpResponse | None:
        """Django's, which asks first."""
        if self._are_too_many(request, queryset, MOST_ACTED):
            return None
        return actions.delete_selected(self, request, queryset)

    def act(self, request: HttpRequest, feed: Feed, what: str) -> bool:
        """Does what a button of the feed's page says. False for a button that there is not."""
        rows = Feed.objects.filter(pk=feed.pk)
        match what:
            case "fetch":
                self.fetch_now(request, rows)
            case "pause":
                self.pause(request, rows)
            case "resume":
                self.resume(request, rows)
            case "adopt":
                self.adopt(request, rows)
            case "bring-back":
                self.bring_back(request, rows)
            case "choose":
                self._each(request, rows, "Given the address", lambda row, now: _choose(request, row, now))
            case _:
                return False
        return True

    def _each(
        self, request: HttpRequest, rows: QuerySet[Feed], said: str, do: Callable[[Feed, datetime], bool]
    ) -> None:
        """Does it for each; what cannot be done for one is said, and does not stop the others."""
        if self._are_too_many(request, rows, MOST_MOVED):
            return
        done = []
        for feed in rows:
            try:
                if do(feed, datetime.now(UTC)):
                    done.append(feed)
            except (MoveError, AddressError) as error:
                self.message_user(request, f"{feed}: {error}", messages.ERROR)
        if done:
            flagging.flag([feed.pk for feed in done], datetime.now(UTC))
        self._tell(request, said, done)

    def _are_too_many(self, request: HttpRequest, rows: QuerySet[Feed], most: int, otherwise: str = "") -> bool:
        """Whether they are, which is told then."""
        number = rows.count()
        if number > most:
            said = f"{number:,} feeds are chosen, and {most:,} at once can be: nothing was done. "
            self.message_user(
                request, said + (otherwise or "Narrow the list, by category or by a word."), messages.ERROR
            )
        return number > most

    def _tell(self, request: HttpRequest, said: str, rows: list[Feed]) -> None:
        if not rows:
            self.message_user(request, "None of them is like that: nothing was changed.", messages.WARNING)
            return
        user_id = cast(AbstractBaseUser, request.user).pk
        LogEntry.objects.log_actions(user_id, rows, CHANGE, f"{said}.")
        names = ", ".join(str(feed) for feed in rows[:_MOST_NAMED])
        more = f" and {len(rows) - _MOST_NAMED:,} more" if len(rows) > _MOST_NAMED else ""
        self.message_user(request, f"{said}: {names}{more}.")


_MOST_NAMED = 10


def _adopt(feed: Feed, now: datetime) -> bool:
    url = str(feed.moving.get("url", ""))
    return bool(url) and bool(moves.relocate(feed.pk, url, ADOPTED, now))


def _bring_back(feed: Feed, now: datetime) -> bool:
    last = Move.objects.filter(feed=feed, new_url=feed.url, undone_at=None).first()
    return last is not None and moves.undo(last.pk, now)


def _choose(request: Any, feed: Feed, now: datetime) -> bool:
    """Another of the feeds that the page at its address announces."""
    url = request.POST.get("url", "")
    if url not in {each.get("url") for each in feed.discovered}:
        return False
    return bool(moves.relocate(feed.pk, url, "It was chosen from the feeds of its page. It is fetched at once.", now))
