"""Floods of each family of keys that strangers drive, on a `state` of a few megabytes: work goes on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from pytest_django import Settings

from feeds import followers
from project import login
from resources import database
from resources.fetch.frontier import queue
from resources.mirror.ingest import url_outcome, writer
from resources.mirror.ingest.url_outcome import SourceUrl
from resources.mirror.models import Resource
from resources.mirror.reports import report
from resources.mirror.reports.batches import SentList
from retry import claim_state, claims, stores
from retry.errors import PreparationError
from retry.stores import Steps
from retry.work import Work
from tests.conftest import RedisServers
from tests.support import claim_calls, feed_rows, frontier

pytestmark = pytest.mark.django_db

ROOM_BYTES = 1024 * 1024
"""Less than half of what each flood takes without a bound."""
WORK = Work("paint:a:1", "paint:a", "paint.now", "paint.refresh", "tests.paint", ("a", 1))


@pytest.fixture
def small_state(redis_servers: RedisServers, settings: Settings) -> Iterator[None]:
    """A server with a little room above what it needs for scripts, and the bounds of such a one."""
    settings.STATE_MAX_BYTES, settings.RETRY_DONE_SECONDS = ROOM_BYTES, 0.01
    do_some_work()
    state = redis_servers.state.client
    state.config_set("maxmemory", state.info("memory")["used_memory"] + ROOM_BYTES)
    yield
    state.config_set("maxmemory", 0)


def do_some_work() -> None:
    """A piece of work in each kind of lane, from its claim to its end, and one of the frontier's jobs."""
    for refresh in (False, True):
        token = claim_calls.begun(WORK, refresh=refresh).token
        assert claim_calls.finish(WORK, claim_calls.start(WORK, token))
    assert claim_calls.swept() == []
    frontier.enqueue(frontier.job())
    frontier.report(frontier.claimed())


def run_all(many: Sequence[Steps[object]]) -> None:
    for some in database.split_portions(many, 200):
        stores.run_together(some)


def fail_work(number: int) -> Steps[object]:
    work = replace(WORK, key=f"paint:flood:{number}")
    begun = claim_state.read_claim_state((yield claims.begin_call(work, refresh=False)))
    assert isinstance(begun, claim_state.ClaimBegun)
    started = claims.read_started((yield claims.start_call(work.key, begun.token, "copy")))
    error = PreparationError("No.", retry_seconds=86_400)
    return (yield claims.finish_failed_call(work.key, started.token, error, luck=0.5))


def be_refused_after_a_redirect(number: int) -> Steps[None]:
    url = f"https://{number}.example/"
    yield from queue.take_turn(url, "", 10)
    yield from queue.report_refused_turn(url, "", 0.1, 86_400)


def be_many_readers(number: int) -> None:
    for day in range(14):
        for feed in range(number):
            readers = {f"land-{feed} {reader:06}" for reader in range(2000)}
            followers.note_readers(readers, feed_rows.NOW + timedelta(days=day))


def sign_in_as_anybody(number: int) -> None:
    for each in range(number):
        login.seconds_to_wait(login.SignInAttempt(f"network {each}", f"account {each}"), 0)


def report_many_lists(number: int) -> None:
    for each in range(number):
        urls = [f"https://{place % 500}.example/{each}/{place}" for place in range(report.MAX_URLS_PER_LIST)]
        report.report_urls(SentList(urls, "tests"), feed_rows.NOW)
        wanted = Resource.objects.filter(state="wanted")
        missing = [
            url_outcome.give_up_outcome(SourceUrl(row.pk, row.url, row.host), row, "permanent", "404", feed_rows.NOW)
            for row in wanted
        ]
        writer.flush_outcomes(missing, feed_rows.NOW)


FLOODS: dict[str, Callable[[], None]] = {
    "failures": lambda: run_all([fail_work(number) for number in range(6_000)]),
    "hosts": lambda: run_all([be_refused_after_a_redirect(number) for number in range(4_000)]),
    "readers": partial(be_many_readers, 15),
    "reports": partial(report_many_lists, 2),
    "sign-ins": partial(sign_in_as_anybody, 10_000),
}


@pytest.mark.usefixtures("small_state")
@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_from_outside_leaves_room_for_work(flood: str, settings: Settings) -> None:
    settings.ADMIN_SIGN_INS = settings.ADMIN_SIGN_INS_PER_ACCOUNT = 1_000_000
    for number in range(15):
        feed_rows.feed(f"land-{number}")
    FLOODS[flood]()
    do_some_work()
