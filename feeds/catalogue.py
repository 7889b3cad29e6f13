"""Adds, edits and imports feeds. Fetches nothing: a new feed is due at once, and a scan is asked for.

Only the fetch shows whether an address has a feed. Where a web page comes, its likeliest feed takes its place.
"""

import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from datetime import datetime
from itertools import islice

from django.db import transaction
from django.db.models import QuerySet

from resources.fetch.http.messages import FetchError, UnreadableSealError
from resources.fetch.http.url_syntax import parse_target

from . import addresses, categories, credentials, feed_rows, followers, lifecycle, supplements
from .addresses import FeedLocation
from .changes import numbers
from .errors import FeedAddressError, FeedError
from .models import MAX_URL_CHARACTERS, RESERVED_SLUGS, Entry, Feed, FormerSlug, Move
from .opml import CategoryPath, FeedList, ListedFeed
from .parser import charset
from .parser.discovery import FeedAddress
from .schedule.state import FeedStatus

CREATE_ATTEMPTS = 5
"""Other processes may add feeds at the same time, and take slugs that were free."""
MAX_FEED_TITLE_CHARACTERS = 500
_NEW_FEED_FIELDS = {"state": FeedStatus.ACTIVE.value, "trouble": "", "failures": 0, "failing_since": None, "held_up": 0}
"""Failures of a page that was no feed do not count against the feed that the page announces."""
ANNOUNCED_REASON = "Found on the web page at its address. Checked at once."


@dataclass(frozen=True, slots=True)
class AddedFeeds:
    """The feeds of some addresses, in the order in which they were named. `new` has the ids of the added ones."""

    feeds: tuple[Feed, ...]
    new: frozenset[int]
    recategorised: frozenset[int]
    """Ids of the feeds that existed before and are in more categories now."""


def add_feed(
    address: FeedLocation, *, title: str = "", categories: Iterable[CategoryPath] = (), now: datetime
) -> tuple[Feed, bool]:
    """Returns the feed at that address, and whether it is new. An old feed stays as it is, but gets the categories."""
    added = add_feeds([ListedFeed(address, title, categories=tuple(categories))], now)
    (feed,) = added.feeds
    return feed, feed.pk in added.new


def add_feeds(wanted: Sequence[ListedFeed], now: datetime) -> AddedFeeds:
    """Returns the feeds of some hundred addresses: all are added, or none. New ones are fetched soon."""
    with transaction.atomic():
        by_digest = {each.address.key_digest: each for each in wanted}
        before = set(Feed.objects.filter(key_digest__in=by_digest).values_list("key_digest", flat=True))
        _create_feeds({digest: each for digest, each in by_digest.items() if digest not in before}, now)
        rows = {feed.key_digest: feed for feed in Feed.objects.filter(key_digest__in=by_digest)}
        new = frozenset(feed.pk for digest, feed in rows.items() if digest not in before)
        paths = [(rows[digest].pk, each.categories) for digest, each in by_digest.items()]
        recategorised = _categorise_feeds(paths) - new
        shown = {feed.pk for feed in rows.values() if feed.pk in new and not feed.is_hidden}
        feed_rows.touch_feeds(recategorised | shown, now)
        if new:
            numbers.check_feeds(new)
            transaction.on_commit(feed_rows.ask_for_scan)
    return AddedFeeds(tuple(rows[each.address.key_digest] for each in wanted), new, recategorised)


def replace_by_discovered(feed_id: int, found: Sequence[FeedAddress], page_url: str, now: datetime) -> bool:
    """Replaces a feed whose address gave a web page by the feeds that the page announces, the likeliest first.

    The first one takes the feed's place and is due at once; people can choose from the others. If another feed is at
    that address, this one is merged into it. Returns False, and changes nothing, if none of them can be fetched, the
    feed has been read before, or a page has led here already.
    """
    with transaction.atomic():
        feed = Feed.objects.select_for_update().filter(pk=feed_id, fetched_at=None).first()
        if feed is None or Move.objects.filter(feed=feed, new_url=feed.url, why=ANNOUNCED_REASON).exists():
            return False
        url = next(filter(None, (_usable_url(feed, each) for each in found)), None)
        if url is None:
            return False
        place = lifecycle.address_after_move(feed, url)
        there = Feed.objects.filter(key_digest=place.key_digest).exclude(pk=feed.pk).first()
        if there is not None:
            lifecycle.merge_feeds(there.pk, [feed.pk], now)
        else:
            shown = {"discovered": [asdict(each) for each in found], "site": feed.site or _checked_site(page_url)}
            lifecycle.relocate_feed(feed.pk, url, ANNOUNCED_REASON, now, {**_NEW_FEED_FIELDS, **shown})
    return True


def _usable_url(feed: Feed, found: FeedAddress) -> str | None:
    """Returns None for an address that cannot be fetched or that people have taken back."""
    try:
        url = addresses.read_address(found.url).url
    except FeedAddressError:
        return None
    return None if url in {feed.url, *feed.refused_moves} else url


def _create_feeds(missing: Mapping[str, ListedFeed], now: datetime) -> None:
    """Creates one row for each. Tries again where another process takes a slug or adds the same feed meanwhile."""
    for _ in range(CREATE_ATTEMPTS):
        slugs = _choose_slugs(missing)
        rows = [_make_feed(slugs[digest], each, now) for digest, each in missing.items()]
        Feed.objects.bulk_create(rows, ignore_conflicts=True)
        there = set(Feed.objects.filter(key_digest__in=missing).values_list("key_digest", flat=True))
        missing = {digest: each for digest, each in missing.items() if digest not in there}
        if not missing:
            return
    raise FeedError("Too many feeds are being added at once. Try again.")


def _choose_slugs(missing: Mapping[str, ListedFeed]) -> dict[str, str]:
    """Returns a free slug for each, all of them different."""
    candidates = {}
    for digest, each in missing.items():
        slug = feed_rows.make_feed_slug(_feed_title(each), each.address.url)
        candidates[digest] = feed_rows.candidate_slugs(slug, "feed", digest[:32])
    every = {slug for slugs in candidates.values() for slug in slugs}
    taken = {*Feed.objects.filter(slug__in=every).values_list("slug", flat=True), *RESERVED_SLUGS}
    taken |= set(FormerSlug.objects.filter(slug__in=every).values_list("slug", flat=True))
    chosen = {}
    for digest, slugs in candidates.items():
        chosen[digest] = next(slug for slug in slugs if slug not in taken)
        taken.add(chosen[digest])
    return chosen


def _make_feed(slug: str, wanted: ListedFeed, now: datetime) -> Feed:
    texts = {"subtitle": wanted.description, "language": wanted.language}
    return Feed(
        slug=slug,
        **lifecycle.address_fields(wanted.address),
        sealed_password=credentials.seal_password(wanted.address.password),
        title=_feed_title(wanted),
        site=_checked_site(wanted.site),
        said={name: value for name, value in texts.items() if value},
        is_hidden=bool(wanted.address.user or wanted.address.password),
        next_check_at=now,
        reason="New: never fetched.",
        created_at=now,
    )


def _feed_title(wanted: ListedFeed) -> str:
    """Returns the title that people gave; empty where it shows the address, as in lists that know no titles."""
    title = " ".join(charset.strip_illegal(wanted.title).split())[:MAX_FEED_TITLE_CHARACTERS]
    return "" if addresses.shows_address(title, wanted.address.url) else title


def _checked_site(url: str) -> str:
    """Returns an address for people to click; empty for anything else."""
    try:
        found = parse_target(url).url
    except FetchError:
        return ""
    return found if len(found) <= MAX_URL_CHARACTERS else ""


def _categorise_feeds(wanted: Collection[tuple[int, tuple[CategoryPath, ...]]]) -> frozenset[int]:
    """Puts feeds into categories that they are not in yet, and returns their ids."""
    found = categories.ensure_categories({path for _, paths in wanted for path in paths})
    through = Feed.categories.through._default_manager
    pairs = {(feed_id, found[path].pk) for feed_id, paths in wanted for path in paths if path in found}
    rows = through.filter(feed_id__in={feed_id for feed_id, _ in pairs})
    missing = pairs.difference(rows.values_list("feed_id", "category_id"))
    link = Feed.categories.through
    through.bulk_create([link(feed_id=one, category_id=other) for one, other in missing], ignore_conflicts=True)
    return frozenset(feed_id for feed_id, _ in missing)


MOVED_REASON = "Address changed. Checked at once."
CREDENTIALS_REASON = "Authentication changed. Checked at once."
BOUNDS_REASON = "Check interval changed."
NO_VALIDATORS = {"etag": "", "last_modified": "", "validated_url": "", "body_digest": ""}


@dataclass(frozen=True, slots=True)
class FeedEdit:
    """A feed as it should be. Without a password the stored one stays, as long as there is a user.

    `headers` is None to keep the stored ones. `fields` are other fields of the row, as they are.
    """

    address: FeedLocation
    headers: Mapping[str, str] | None
    fields: Mapping[str, object]


def edit_feed(feed_id: int, wanted: FeedEdit, now: datetime) -> bool:
    """Changes the feed. True if its requests change from now on: then it is fetched at once.

    Another address is a move that can be undone. A feed whose server gets secrets from now on is hidden, unless
    `fields` say otherwise. Raises MoveError and Feed.DoesNotExist.
    """
    with transaction.atomic():
        feed = Feed.objects.select_for_update().get(pk=feed_id)
        moves_on = wanted.address.url != feed.url
        if moves_on:
            lifecycle.relocate_feed(feed_id, wanted.address.url, MOVED_REASON, now)
            feed.refresh_from_db()
        shown = _changed_credentials(feed, wanted)
        if shown:
            due = lifecycle.due_now_fields(MOVED_REASON if moves_on else CREDENTIALS_REASON, now)
            place = FeedLocation(feed.url, wanted.address.user)
            lifecycle.place_feed(feed, place, {**shown, **NO_VALIDATORS, **due}, now)
        if wanted.fields.get("slug", feed.slug) != feed.slug:
            feed_rows.remember_slugs([feed.slug], feed_id)
            numbers.give_again(Entry.objects.filter(feed_id=feed_id))  # entries name their feed's slug
        fields = dict(wanted.fields)
        gives_secrets = any(shown.get(name) for name in credentials.CREDENTIAL_FIELDS)
        becomes_private = gives_secrets and not credentials.is_private(feed)
        is_hidden = bool(fields.pop("is_hidden", feed.is_hidden or becomes_private))
        Feed.objects.filter(pk=feed_id).update(**fields)
        if "full_content" in fields:
            supplements.switch_articles(feed_id, now)
        if not moves_on and not shown:
            apply_check_bounds(feed_id, fields, now)
        feed_rows.touch_feeds([feed_id], now)
        (lifecycle.hide_feeds if is_hidden else lifecycle.show_feeds)([feed_id], now)
    return moves_on or bool(shown)


def apply_check_bounds(feed_id: int, changed: Mapping[str, object], now: datetime) -> None:
    """Moves the next check into the feed's new bounds, if they changed. Back-offs after failures stay."""
    if not {"least_seconds", "most_seconds"} & changed.keys():
        return
    feed = Feed.objects.filter(pk=feed_id, state=FeedStatus.ACTIVE.value, checked_at__isnull=False).first()
    if feed is None or feed.checked_at is None:
        return
    at = min(max(feed.next_check_at, feed.checked_at + feed.least), feed.checked_at + feed.most)
    if at != feed.next_check_at:
        Feed.objects.filter(pk=feed_id).update(next_check_at=max(at, now), reason=BOUNDS_REASON)


def _changed_credentials(feed: Feed, wanted: FeedEdit) -> dict[str, str]:
    address, fields = wanted.address, {}
    if address.user != feed.user:
        fields = lifecycle.address_fields(FeedLocation(feed.url, address.user))
        if not address.user:
            fields["sealed_password"] = ""
    if address.password:
        fields["sealed_password"] = credentials.seal_password(address.password)
    if wanted.headers is not None and (wanted.headers or feed.sealed_headers):
        fields["sealed_headers"] = credentials.seal_headers(wanted.headers)
    return fields


FEEDS_PER_PART = 200
"""Feeds per part: all of a part are imported, or none."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of importing a list or a part of it. `known` feeds existed; some of them came into more categories."""

    added: int = 0
    known: int = 0
    recategorised: int = 0
    followed: int = 0

    def __add__(self, other: "ImportResult") -> "ImportResult":
        return ImportResult(*map(operator.add, astuple(self), astuple(other)))

    @property
    def feeds(self) -> int:
        return self.added + self.known


def import_list(found: FeedList, follower_id: int | None, now: datetime) -> Iterator[ImportResult]:
    """Imports a list part by part, and yields each part's result. The same list again continues where it stopped.

    With a follower, that user follows the feeds. Raises FeedError and DatabaseError; imported parts stay then.
    """
    for start in range(0, len(found.subscriptions), FEEDS_PER_PART):
        with transaction.atomic():
            added = add_feeds(found.subscriptions[start : start + FEEDS_PER_PART], now)
            ids = [feed.pk for feed in added.feeds]
            followed = followers.follow_feeds(follower_id, ids, now) if follower_id is not None else 0
        yield ImportResult(len(added.new), len(ids) - len(added.new), len(added.recategorised), followed)


def preview_import(found: FeedList) -> tuple[list[ListedFeed], int]:
    """Returns the feeds that an import would add, and how many exist already. Changes nothing."""
    by_digest = {each.address.key_digest: each for each in found.subscriptions}
    digests = list(by_digest)
    known: set[str] = set()
    for start in range(0, len(digests), FEEDS_PER_PART):
        rows = Feed.objects.filter(key_digest__in=digests[start : start + FEEDS_PER_PART])
        known.update(rows.values_list("key_digest", flat=True))
    return [each for digest, each in by_digest.items() if digest not in known], len(known)


def list_subscriptions(feeds: QuerySet[Feed], *, with_passwords: bool = False) -> Iterator[ListedFeed]:
    """Yields the feeds as a list has them. Passwords that cannot be opened are left out."""
    chosen = feeds.only("url", "user", "sealed_password", "title", "own_title", "site", "said")
    rows = chosen.iterator(chunk_size=FEEDS_PER_PART)
    while part := list(islice(rows, FEEDS_PER_PART)):
        paths = categories.paths_by_feed(part)
        for feed in part:
            yield _list_feed(feed, paths[feed.pk], with_password=with_passwords)


def _list_feed(feed: Feed, paths: tuple[CategoryPath, ...], *, with_password: bool) -> ListedFeed:
    password = ""
    if with_password:
        with suppress(UnreadableSealError):
            password = credentials.unseal_password(feed)
    # Its own texts may be HTML, and are passed on in one line.
    texts = {name: " ".join(str(feed.said.get(name) or "").split()) for name in ("subtitle", "language")}
    return ListedFeed(
        FeedLocation(feed.url, feed.user, password),
        title=feed.title or feed.own_title,
        site=feed.site,
        description=texts["subtitle"],
        language=texts["language"],
        categories=paths,
    )
