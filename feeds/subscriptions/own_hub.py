"""Tells the hub elsewhere that FEEDS_HUB names (WebSub) of changes of the served feeds and combinations.

Rows are the truth: lost announcements are made again. The hub fetches a changed page as soon as it is told. So
pages are rendered first, and the hub is told when the front no longer has older ones. The announced versions of
pages are in `state`, by their paths; if they are lost, the hub is told once more.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, Q

from resources import locks
from resources.fetch import dispatch
from resources.fetch.dispatch import OriginBusy, QueuedWork, UrlRefused, WorkEnqueued
from resources.fetch.http.messages import Fetched, FetchFailed, FetchRequest, NotModified
from retry import deferral
from retry.contents import Prepared
from retry.decision import Decision, Fail, Serve
from retry.errors import PreparationError
from retry.work import Argument, Work

from ..models import LONG_FIELDS, Category, Feed
from ..pages import page_entries
from ..pages.query import PageFormat, PageQuery
from ..pages.work import render_work
from ..push import websub
from .fetch_task import build_push_request

TASK_NAME = "feeds.announce"
LANE = "fetch.calls"
ANNOUNCED_FORMATS: tuple[PageFormat, ...] = ("atom", "rss", "json")
MAX_CHANGE_AGE = timedelta(days=1)
"""Older changes are not announced: no client waits for them. So a new hub is not told of everything."""
SUBJECT_MODELS: dict[str, type[Feed] | type[Category]] = {"feed": Feed, "category": Category}
KEEP_PATHS_FOR = timedelta(days=2)
ANNOUNCE_LOCK, ANNOUNCE_LOCK_SECONDS = "feeds:announcing", 30
MAX_LOOKED_AT = 1000
"""The number of feeds in one pass, and of combinations: more than rest, or have pages that the hub refuses."""
MAX_ANNOUNCED = 100
"""The number of those announced: room is left for others in the lane. The latest come first, so that resting and
refused ones are not in their way."""

_log = logging.getLogger("tarry.feeds")


def announcement_work(hub: str, path: str, row: str) -> Work:
    """The work that tells the hub of one path. `row` is that of its subject."""
    return Work(f"fetch:announcement:{path}", "announcement", LANE, LANE, TASK_NAME, (hub, path, row))


def _row_name(subject: Feed | Category) -> str:
    return f"{'feed' if isinstance(subject, Feed) else 'category'}:{subject.pk}"


def _announced_pages(subject: Feed | Category) -> list[PageQuery]:
    of = PageQuery.page_of_feed if isinstance(subject, Feed) else PageQuery.page_of_category
    return [of(subject.slug).as_format(each) for each in ANNOUNCED_FORMATS]


def announce_changes(now: datetime) -> int:
    """Makes one pass; returns the number of requests handed over: 0 without a hub elsewhere, or while another runs.

    Raises StoreUnavailable and DatabaseError.
    """
    if settings.FEEDS_HUB in {"", websub.OWN_HUB}:
        return 0

    def announce() -> int:
        found = _rested_subjects(changed_subjects(now, MAX_LOOKED_AT))
        return sum(_announce_subject(one, now) for one in found[:MAX_ANNOUNCED])

    return locks.run_alone(ANNOUNCE_LOCK, ANNOUNCE_LOCK_SECONDS, announce)


def changed_subjects(now: datetime, most: int) -> list[Feed | Category]:
    """The changed feeds and combinations, the latest first, at most `most` of each kind. Raises DatabaseError."""
    since = round((now - MAX_CHANGE_AGE).timestamp() * 1_000_000)
    unannounced = Q(version__gte=since, version__gt=F("announced_version"))
    feeds = Feed.objects.filter(unannounced, is_hidden=False).defer(*LONG_FIELDS).order_by("-version")[:most]
    combinations = Category.objects.filter(unannounced).order_by("-version")[:most]
    return sorted((*feeds, *combinations), key=lambda one: one.version, reverse=True)


def _rested_subjects(found: Sequence[Feed | Category]) -> list[Feed | Category]:
    """The subjects that were not announced just now: frequent changes are announced once in a while."""
    with locks.open_state() as client, client.pipeline(transaction=False) as pipeline:
        for one in found:
            pipeline.exists(_rest_key(one))
        rests = pipeline.execute()
    return [one for one, is_resting in zip(found, rests, strict=True) if not is_resting]


def _announce_subject(one: Feed | Category, now: datetime) -> int:
    """Announces one subject. Paths under way or failed lately leave the row unchanged: it comes again for them."""
    answers = _cached_pages(one)
    if any(isinstance(answer, Fail) for answer in answers):  # the hub would have nothing to fetch
        mark_announced(one, one.version)
        return 0
    version = _shown_version(answers, now)
    if version is None:
        return 0
    with locks.open_state() as client:
        client.set(_rest_key(one), 1, ex=settings.FEEDS_HUB_SECONDS)
    paths = unannounced_paths(_row_name(one), [page.path for page in _announced_pages(one)], version)
    works = {path: announcement_work(settings.FEEDS_HUB, path, _row_name(one)) for path in paths}
    return _hand_over_paths(one, works, version)


def _cached_pages(one: Feed | Category) -> list[Decision]:
    """The subject's cached pages. Missing ones, and those announced before, are being rendered."""
    found = []
    for asked in _announced_pages(one):
        key = page_entries.page_content_key(asked, one)
        work = render_work(asked, key, one.version)
        found.append(deferral.find_answer(key, work, one.announced_version + 1))
    return found


def _shown_version(answers: Sequence[Decision], now: datetime) -> int | None:
    """The version that all clients get by now; None while some may get older pages."""
    shown = [answer.content for answer in answers if isinstance(answer, Serve) and not answer.stale]
    hot = timedelta(seconds=settings.HOT_SECONDS)
    if len(shown) < len(answers) or any(now - page.stored_at < hot for page in shown):
        return None
    return min(page.version for page in shown)


def _hand_over_paths(one: Feed | Category, works: Mapping[str, Work], version: int) -> int:
    """Hands over the works, by path; returns the number that the frontier took.

    Paths are noted as announced before they are enqueued: a failure is noted after that, and prevails.
    """

    def write_rows(begun: Collection[str], in_hand: Collection[str]) -> None:
        if begun:
            note_announced_paths(_row_name(one), begun, version)
        if len(begun) == len(works):
            mark_announced(one, version)

    wanted = {path: QueuedWork(work) for path, work in works.items()}
    outcomes = dispatch.claim_and_enqueue(wanted, refresh=True, write_rows=write_rows)
    if refused := [path for path, outcome in outcomes.items() if isinstance(outcome, OriginBusy | UrlRefused)]:
        forget_announcement(_row_name(one), refused)
    return sum(isinstance(outcome, WorkEnqueued) for outcome in outcomes.values())


def _rest_key(one: Feed | Category) -> str:
    return f"feeds:announced:{_row_name(one)}"


def mark_announced(one: Feed | Category, version: int) -> None:
    type(one)._default_manager.filter(pk=one.pk).update(announced_version=version)


def unannounced_paths(row: str, paths: Sequence[str], version: int) -> list[str]:
    """The paths that are not yet announced in that version. Raises StoreUnavailable."""
    with locks.open_state() as client:
        versions = client.hmget(_paths_key(row), list(paths))
    return [path for path, known in zip(paths, versions, strict=True) if known is None or int(known) < version]


def note_announced_paths(row: str, paths: Collection[str], version: int) -> None:
    """Notes that these paths are being announced. Raises StoreUnavailable."""
    with locks.open_state() as client, client.pipeline(transaction=False) as pipeline:
        pipeline.hset(_paths_key(row), mapping=dict.fromkeys(paths, version))
        pipeline.expire(_paths_key(row), KEEP_PATHS_FOR)
        pipeline.execute()


def forget_announcement(row: str, paths: Collection[str]) -> None:
    """Notes that these paths are to be announced again. Raises DatabaseError and StoreUnavailable."""
    kind, _, pk = row.partition(":")
    SUBJECT_MODELS[kind]._default_manager.filter(pk=int(pk)).update(announced_version=0)
    with locks.open_state() as client:
        client.hdel(_paths_key(row), *paths)


def _paths_key(row: str) -> str:
    return f"feeds:told:{row}"


class AnnounceChange:
    """The task `feeds.announce`. Its arguments are the hub's URL, the changed path, and the row of its subject."""

    obeys_robots = False
    """This site has chosen the hub itself."""
    sends_secrets = True

    def identify(self, *arguments: Argument) -> str:
        """Returns the path: its request has a body of its own."""
        return str(arguments[1])

    def fetch(self, *arguments: Argument) -> FetchRequest:
        body = websub.write_publication_form(f"{page_entries.site_url()}{arguments[1]}")
        return build_push_request(str(arguments[0]), "hub", body, {"Content-Type": websub.FORM_TYPE})

    def prepare(self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument) -> Mapping[str, Prepared]:
        """Returns nothing. Raises PreparationError if the hub refused: it is told again after a while."""
        if isinstance(outcome, FetchFailed):
            _log.warning("the hub does not take what has changed", extra={"error": outcome.detail})
            _, path, row = map(str, arguments)
            forget_announcement(row, [path])
            raise PreparationError(f"The hub: {outcome.detail}.", retry_seconds=outcome.retry_after_seconds)
        return {}


TASK = AnnounceChange()
