"""Writes the change log: gives numbers to what was committed without one, and prunes.

Writers of entries and feeds only leave rows without a number and checks of memberships behind, in their own
transactions, and ask for the rest with `number_on_commit`. One process at a time then gives the numbers, in a
transaction of its own: no writer waits for another one, and numbers are in the order of the commits. After a crash in
between the next call does it. Entries get their stories there too (`stories`): programs are given them with these.
"""

import logging
import secrets
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import BigIntegerField, Case, Exists, F, Max, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Greatest
from redis.exceptions import RedisError

from resources.database import split_portions, write_turn
from retry import stores

from .. import stories, versions
from ..change_rows import ChangeLog, ChangeSpan, Membership, MembershipCheck, Removal
from ..models import ALL_SLUG, Category, Entry, Feed
from .positions import CHANGE_CHANNEL, IDENTITY_CHARACTERS, number_at

NUMBERED_AT_ONCE = 500
"""Entries in one transaction: the first call after an upgrade has all entries to number."""
CHECKS_AT_ONCE = 500
SPAN_PAUSE = timedelta(seconds=10)
"""Less than a machine takes to start again, or a database to fail over, with its last commits lost."""
_SPAN_PAUSE_NUMBERS = number_at(datetime(1970, 1, 1, tzinfo=UTC) + SPAN_PAUSE)
REMOVALS_PER_DELETION = 2_000

_log = logging.getLogger("tarry.feeds")


def check_feeds(feeds: Iterable[int]) -> None:
    """Has the memberships of these feeds checked, also of deleted ones. Call it in the transaction of the change."""
    MembershipCheck.objects.bulk_create([MembershipCheck(feed_number=pk) for pk in feeds], batch_size=500)
    number_on_commit()


def check_categories(categories: Iterable[int]) -> None:
    """Has the memberships of all feeds of these categories checked. Call it in the transaction of the change."""
    MembershipCheck.objects.bulk_create([MembershipCheck(category_number=pk) for pk in categories])
    number_on_commit()


def refilter_category(category: int) -> None:
    """Gives programs a category's entries anew, as its filters show them. Call it in the change's transaction."""
    MembershipCheck.objects.create(category_number=category, is_refiltered=True)
    number_on_commit()


def give_again(entries: QuerySet[Entry]) -> None:
    """Makes these entries count as changed. Call it in the transaction of the change."""
    entries.update(change_number=None)
    number_on_commit()


def delete_entries(entries: QuerySet[Entry], reason: str) -> int:
    """Deletes entries, and notes their removal; returns their number. Raises DatabaseError."""
    with transaction.atomic():
        gone = take_back(entries, reason)
        return Entry.objects.filter(pk__in=gone).only("pk").delete()[1].get("feeds.Entry", 0)


def take_back(entries: QuerySet[Entry], reason: str) -> list[int]:
    """Locks these entries, which are deleted or filtered in this transaction, notes their removal, returns their ids.

    Raises DatabaseError.
    """
    names = ("pk", "feed_id", "arrival_number", "filtered_at")
    rows = list(entries.order_by("pk").select_for_update().values_list(*names))
    # An entry that never had a number was given to no client; one that waits for its next number was.
    given = [(pk, feed_id) for pk, feed_id, number, filtered_at in rows if number is not None and filtered_at is None]
    removals = [Removal(feed_number=feed_id, entry_number=pk, reason=reason) for pk, feed_id in given]
    Removal.objects.bulk_create(removals, batch_size=500)
    if removals:
        number_on_commit()
    return [row[0] for row in rows]


def number_on_commit() -> None:
    """Gives the numbers once the transaction is committed."""
    if not _is_asked():
        transaction.on_commit(_number_quietly)


def _is_asked() -> bool:
    """Tells whether this transaction has asked already, so that it does not ask for each of its changes."""
    connection = transaction.get_connection()
    return any(call is _number_quietly for _, call, _ in connection.run_on_commit)


def _number_quietly() -> None:
    """Gives the numbers. Where that fails, the next call does it: what was committed before is stored."""
    try:
        number_changes(datetime.now(UTC))
    except DatabaseError as error:
        _log.warning("changes have no numbers yet", extra={"error": str(error)})


def number_changes(now: datetime, seconds: float = 1.0) -> int:
    """Gives numbers to all that has none, for about so many seconds. Returns how many. Raises DatabaseError."""
    until, numbered = time.monotonic() + seconds, 0
    is_full = _has_unnumbered()
    while is_full:
        done, is_full = _number_some(now)
        numbered += done
        is_full = is_full and time.monotonic() < until
    if numbered:
        with suppress(RedisError):  # streams look by themselves once in a while
            stores.fast_client("state").publish(CHANGE_CHANNEL, numbered)
    return numbered


def ensure_log() -> ChangeLog:
    """Returns the log's row; makes it if there is none. Raises DatabaseError."""
    fresh = {"identity": secrets.token_hex(IDENTITY_CHARACTERS // 2)}
    return ChangeLog.objects.first() or ChangeLog.objects.get_or_create(pk=1, defaults=fresh)[0]


def _has_unnumbered() -> bool:
    return (
        MembershipCheck.objects.exists()
        or Removal.objects.filter(number=None).exists()
        or Entry.objects.filter(change_number=None).exists()
    )


def _number_some(now: datetime) -> tuple[int, bool]:
    """Gives one number to some changes. Returns how many, checks included, and whether there may be more."""
    ensure_log()
    with write_turn(), transaction.atomic():
        log = ChangeLog.objects.select_for_update().get()
        number = max(log.head + 1, number_at(now))
        removed, checked = _settle_memberships(number)
        changed = removed + Removal.objects.filter(number=None).update(number=number)
        entries = Entry.objects.filter(change_number=None).select_for_update(skip_locked=True).order_by("pk")
        # Entries come after their feeds' memberships: entries of new feeds are new to combinations too.
        ids = list(entries.values_list("pk", flat=True)[: NUMBERED_AT_ONCE if checked < CHECKS_AT_ONCE else 0])
        found = stories.find_stories(ids)
        changed += _number_entries(ids, found, number)
        if changed:
            _advance_head(log, number)
    if found:  # a page that was rendered before has these entries once more
        _touch_apart(found, now)
    return changed + checked, len(ids) == NUMBERED_AT_ONCE or checked == CHECKS_AT_ONCE


def _number_entries(entries: Collection[int], found: Mapping[int, int], number: int) -> int:
    """Gives the number to these entries, and the stories that were found. Returns how many there are.

    Each row is written once: at a second time PostgreSQL would look for its feed again, and wait for its writer.
    """
    arrival = Case(When(filtered_at=None, then=Coalesce("arrival_number", Value(number))), default="arrival_number")
    fields = {"change_number": number, "arrival_number": arrival}
    numbered = Entry.objects.filter(pk__in=[pk for pk in entries if pk not in found]).update(**fields)
    for part in split_portions(found, stories.NUMBERS_PER_QUERY):
        told = Case(*(When(pk=pk, then=Value(found[pk])) for pk in part), output_field=BigIntegerField())
        numbered += Entry.objects.filter(pk__in=part).update(**fields, story=told)
    return numbered


def _touch_apart(entries: Collection[int], now: datetime) -> None:
    """Raises the versions of the combinations with these entries, once the entries are no longer locked.

    A process that removes feeds has locked these before the entries: the two would wait for each other.
    """
    feeds = set(Entry.objects.filter(pk__in=entries).order_by().values_list("feed_id", flat=True))
    with write_turn(), transaction.atomic():
        versions.touch_combinations(feeds, now)


def _advance_head(log: ChangeLog, number: int) -> None:
    ChangeLog.objects.filter(pk=log.pk).update(head=number)
    last = ChangeSpan.objects.filter(last=log.head, last__gt=number - _SPAN_PAUSE_NUMBERS)
    if not last.update(last=number):
        ChangeSpan.objects.create(first=number, last=number)


def _settle_memberships(number: int) -> tuple[int, int]:
    """Makes the memberships of checked feeds what they should be. Returns the numbers of changes and of checks."""
    checks = list(MembershipCheck.objects.order_by("pk")[:CHECKS_AT_ONCE])
    if not checks:
        return 0, 0
    feeds = {check.feed_number for check in checks if check.feed_number is not None}
    named = {check.category_number for check in checks if check.category_number is not None}
    if named:
        members = Membership.objects.filter(category_number__in=named)
        feeds.update(members.values_list("feed_number", flat=True))
    changed = _empty_combinations({check.category_number for check in checks if check.is_refiltered}, number)
    changed += sum(_settle_feeds(part, number) for part in _split(sorted(feeds)))
    MembershipCheck.objects.filter(pk__in=[check.pk for check in checks]).delete()
    return changed, len(checks)


def _empty_combinations(combinations: Collection[int | None], number: int) -> int:
    """Has all feeds leave these combinations, which they join anew then. Returns how many left."""
    members = Membership.objects.filter(category_number__in=[each for each in combinations if each is not None])
    rows = members.order_by("pk").values_list("feed_number", "category_number")
    removals = [
        Removal(number=number, feed_number=feed, category_number=category, reason="filtered") for feed, category in rows
    ]
    Removal.objects.bulk_create(removals, batch_size=500)
    members.delete()
    return len(removals)


def _settle_feeds(feeds: Collection[int], number: int) -> int:
    wanted = _find_combinations(feeds)
    members = Membership.objects.filter(feed_number__in=feeds)
    stands: set[tuple[int, int]] = set(members.values_list("feed_number", "category_number"))
    left, joined = sorted(stands - wanted), sorted(wanted - stands)
    reasons = _find_reasons({feed for feed, _ in left})
    removals = [
        Removal(number=number, feed_number=feed, category_number=category, reason=reasons.get(feed, "deleted"))
        for feed, category in left
    ]
    Removal.objects.bulk_create(removals, batch_size=500)
    gone: defaultdict[int, list[int]] = defaultdict(list)
    for feed, category in left:
        gone[category].append(feed)
    for category, some in gone.items():
        Membership.objects.filter(category_number=category, feed_number__in=some).delete()
    rows = [Membership(feed_number=feed, category_number=category, since=number) for feed, category in joined]
    Membership.objects.bulk_create(rows, batch_size=500)
    return len(left) + len(joined)


def _find_combinations(feeds: Collection[int]) -> set[tuple[int, int]]:
    """The feeds that are in combinations, each with the ids of all of these."""
    shown = set(Feed.objects.filter(pk__in=feeds, paused=False, is_hidden=False).values_list("pk", flat=True))
    parents = dict(Category.objects.values_list("pk", "parent_id"))
    everything = Category.objects.filter(slug=ALL_SLUG).values_list("pk", flat=True)
    found = {(feed, category) for feed in shown for category in everything}
    links = Feed.categories.through._default_manager.filter(feed_id__in=shown)
    for feed, category in links.values_list("feed_id", "category_id"):
        at: int | None = category
        while at is not None and (feed, at) not in found:
            found.add((feed, at))
            at = parents.get(at)
    return found


def _find_reasons(feeds: Collection[int]) -> Mapping[int, str]:
    """The reasons for which these feeds left combinations; those that are missing were deleted."""
    rows = Feed.objects.filter(pk__in=feeds).values_list("pk", "is_hidden", "paused")
    return {pk: "hidden" if hidden else "paused" if paused else "category" for pk, hidden, paused in rows}


def heal_memberships() -> None:
    """Finds feeds whose memberships were never checked, as of an earlier version. Raises DatabaseError."""
    shown = Feed.objects.filter(paused=False, is_hidden=False)
    links = Feed.categories.through._default_manager.filter(feed__paused=False, feed__is_hidden=False)
    of_feed = Membership.objects.filter(feed_number=OuterRef("pk"))
    of_link = Membership.objects.filter(feed_number=OuterRef("feed_id"), category_number=OuterRef("category_id"))
    alive = shown.filter(pk=OuterRef("feed_number"))
    found = {*shown.filter(~Exists(of_feed)).values_list("pk", flat=True)}
    found |= {*links.filter(~Exists(of_link)).values_list("feed_id", flat=True)}
    found |= {*Membership.objects.filter(~Exists(alive)).values_list("feed_number", flat=True)}
    if found:
        with transaction.atomic():
            check_feeds(sorted(found))


def prune_log(before: datetime, seconds: float) -> int:
    """Deletes removals with numbers of before then, for about so many seconds. Returns how many. Raises DatabaseError.

    The floor is raised first: no cursor that would miss them is taken from then on.
    """
    until, removed = time.monotonic() + seconds, 0
    while True:
        old = Removal.objects.filter(number__lt=number_at(before)).order_by("number", "pk")
        rows = list(old.values_list("pk", "number")[:REMOVALS_PER_DELETION])
        if rows:
            with write_turn(), transaction.atomic():
                ChangeLog.objects.update(floor=Greatest(F("floor"), Value(rows[-1][1])))
                removed += Removal.objects.filter(pk__in=[pk for pk, _ in rows]).delete()[0]
        if len(rows) < REMOVALS_PER_DELETION or time.monotonic() >= until:
            break
    last = ChangeSpan.objects.aggregate(last=Max("last"))["last"] or 0
    floor = ChangeLog.objects.aggregate(floor=Max("floor"))["floor"] or 0
    ChangeSpan.objects.filter(Q(last__lt=floor), ~Q(last=last)).delete()
    return removed


def _split(feeds: list[int]) -> Iterable[list[int]]:
    return (feeds[place : place + CHECKS_AT_ONCE] for place in range(0, len(feeds), CHECKS_AT_ONCE))
