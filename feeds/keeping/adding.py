"""From addresses to feeds. Fetches nothing: a feed that was never fetched is due at once, and a scan is asked for.

Whether there is a feed at an address is only known then. Where a web page comes, its likeliest feed takes its place.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from django.db import IntegrityError, transaction

from resources.fetching.addressing.targets import parse as parse_target
from resources.fetching.errors import FetchError

from .. import addresses, hiding, naming
from ..addresses import Address
from ..deciding.standing import State
from ..errors import AddressError, FeedError
from ..models import MOST_URL_CHARACTERS, RESERVED_SLUGS, Feed, Move
from ..opml import mending
from ..opml.outlines import Path, Subscription
from ..parsing.discovery import FeedAddress
from . import aliases, credentials, flagging, merging, moves, places, versions
from . import categories as keeping_categories

ATTEMPTS = 5
"""Others may add feeds at the same time, and take the slugs that were free."""
MOST_TITLE_CHARACTERS = 500
_NEW = {"state": State.ACTIVE.value, "trouble": "", "failures": 0, "failing_since": None, "held_up": 0}
"""Of a page that was no feed nothing is held against the feed that it announces."""
ANNOUNCED = "A web page was there, which announces this feed. It is fetched at once."


@dataclass(frozen=True, slots=True)
class Added:
    """Feeds that were to be there, in the order in which they were named. `new` has the ids of those that were not."""

    feeds: tuple[Feed, ...]
    new: frozenset[int]
    recategorised: frozenset[int]
    """Those that were there and are in more categories than before."""


def add(address: Address, *, title: str = "", categories: Iterable[Path] = (), now: datetime) -> tuple[Feed, bool]:
    """The feed at that address, and whether it is new. One that was there stays as it is, but for its categories."""
    added = add_all([Subscription(address, title, categories=tuple(categories))], now)
    (feed,) = added.feeds
    return feed, feed.pk in added.new


def add_all(wanted: Sequence[Subscription], now: datetime) -> Added:
    """The feeds of all these addresses: all or none of them. For some hundreds at once. New ones are fetched soon."""
    with transaction.atomic():
        by_digest = {each.address.key_digest: each for each in wanted}
        before = set(Feed.objects.filter(key_digest__in=by_digest).values_list("key_digest", flat=True))
        _create({digest: each for digest, each in by_digest.items() if digest not in before}, now)
        rows = {feed.key_digest: feed for feed in Feed.objects.filter(key_digest__in=by_digest)}
        new = frozenset(feed.pk for digest, feed in rows.items() if digest not in before)
        recategorised = _categorise([(rows[digest].pk, each.categories) for digest, each in by_digest.items()]) - new
        versions.touch(recategorised, now)
        if new:
            transaction.on_commit(flagging.ask_for_scan)
    return Added(tuple(rows[each.address.key_digest] for each in wanted), new, recategorised)


def discovered(feed_id: int, found: Sequence[FeedAddress], page_url: str, now: datetime) -> bool:
    """What came at the address of a feed was a web page that announces these, the likeliest first.

    The first one takes its place and is due at once; the others are kept for people to choose from. Where there is a
    feed at that address, this one becomes a part of it. False, and nothing changed: none of them can be fetched, it
    has been a feed before, or a page has led here already.
    """
    with transaction.atomic():
        feed = Feed.objects.select_for_update().filter(pk=feed_id, fetched_at=None).first()
        if feed is None or Move.objects.filter(feed=feed, new_url=feed.url, why=ANNOUNCED).exists():
            return False
        url = next(filter(None, (_other_url(feed, each) for each in found)), None)
        if url is None:
            return False
        place = places.moved(feed, url)
        there = Feed.objects.filter(key_digest=place.key_digest).exclude(pk=feed.pk).first()
        if there is not None:
            merging.merge(there.pk, [feed.pk], now)
        else:
            kept = {**_NEW, "discovered": [asdict(each) for each in found], "site": feed.site or _site(page_url)}
            moves.relocate(feed.pk, url, ANNOUNCED, now, kept)
    return True


def _other_url(feed: Feed, found: FeedAddress) -> str | None:
    """None for what cannot be fetched, and for what people have taken back."""
    try:
        url = addresses.read(found.url).url
    except AddressError:
        return None
    return None if url in {feed.url, *feed.refused_moves} else url


def _create(missing: Mapping[str, Subscription], now: datetime) -> None:
    """One row for each. Where others take a slug or add the same feed meanwhile, it is tried again."""
    for _ in range(ATTEMPTS):
        slugs = _slugs(missing)
        rows = [_row(slugs[digest], each, now) for digest, each in missing.items()]
        try:
            Feed.objects.bulk_create(rows, ignore_conflicts=True)
        except IntegrityError as error:  # pragma: no cover  # no row of these breaks any other rule
            raise FeedError("These feeds cannot be kept.") from error
        there = set(Feed.objects.filter(key_digest__in=missing).values_list("key_digest", flat=True))
        missing = {digest: each for digest, each in missing.items() if digest not in there}
        if not missing:
            return
    raise FeedError("Too many feeds are being added at once. Try again.")


def _slugs(missing: Mapping[str, Subscription]) -> dict[str, str]:
    """A free slug for each, all of them different."""
    wished = {
        digest: naming.candidates(naming.feed_slug(_title(each), each.address.url), "feed", digest[:32])
        for digest, each in missing.items()
    }
    every = {slug for slugs in wished.values() for slug in slugs}
    taken = {*Feed.objects.filter(slug__in=every).values_list("slug", flat=True), *RESERVED_SLUGS}
    taken |= aliases.taken(every)
    chosen = {}
    for digest, slugs in wished.items():
        chosen[digest] = next(slug for slug in slugs if slug not in taken)
        taken.add(chosen[digest])
    return chosen


def _row(slug: str, wanted: Subscription, now: datetime) -> Feed:
    said = {"subtitle": wanted.description, "language": wanted.language}
    return Feed(
        slug=slug,
        **places.fields_of(wanted.address),
        sealed_password=credentials.sealed_password(wanted.address.password),
        title=_title(wanted),
        site=_site(wanted.site),
        said={name: value for name, value in said.items() if value},
        is_hidden=bool(wanted.address.user or wanted.address.password),
        next_check_at=now,
        reason="It was added, and never fetched before.",
        created_at=now,
    )


def _title(wanted: Subscription) -> str:
    """As people call it; empty where that shows its address, as in lists that have nothing else to say."""
    title = " ".join(mending.clean(wanted.title).split())[:MOST_TITLE_CHARACTERS]
    return "" if hiding.shows(title, wanted.address.url) else title


def _site(url: str) -> str:
    """An address for people to click; empty for anything else."""
    try:
        found = parse_target(url).url
    except FetchError:
        return ""
    return found if len(found) <= MOST_URL_CHARACTERS else ""


def _categorise(wanted: Collection[tuple[int, tuple[Path, ...]]]) -> frozenset[int]:
    """Puts feeds into categories that they are not in. Their ids."""
    found = keeping_categories.ensure({path for _, paths in wanted for path in paths})
    through = Feed.categories.through._default_manager
    pairs = {(feed_id, found[path].pk) for feed_id, paths in wanted for path in paths if path in found}
    rows = through.filter(feed_id__in={feed_id for feed_id, _ in pairs})
    missing = pairs.difference(rows.values_list("feed_id", "category_id"))
    link = Feed.categories.through
    through.bulk_create([link(feed_id=one, category_id=other) for one, other in missing], ignore_conflicts=True)
    return frozenset(feed_id for feed_id, _ in missing)
