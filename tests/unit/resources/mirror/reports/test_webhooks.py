"""Webhooks: called through the fetchers, signed, again until somebody takes it, and never lost."""

import hashlib
import hmac
import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from multidict import CIMultiDict
from pytest_django import Settings

from resources.api import tokens
from resources.api.models import ApiToken
from resources.fetching.outcomes import Body, Failed, Failure, Fetched, Head, Hop, Timing
from resources.fetching.queues import frontier
from resources.fetching.queues.jobs import Claimed
from resources.mirroring.knowing.models import Batch
from resources.mirroring.reporting import batches, progress, reports, webhooks
from resources.mirroring.reporting.batches import Sent
from resources.mirroring.reporting.webhooks import TASK, call_due
from resources.tasks import look_after_batches
from retry import connections
from retry.errors import PreparationError
from retry.work import Argument
from tests.conftest import RedisServers
from tests.resources.mirroring.rows import HOUR, NOW, resource, store, url

pytestmark = pytest.mark.django_db

HOOK = "https://hooks.example.org/told?key=1"
TIMING = Timing(0, 0.1)


@pytest.fixture
def batch() -> Batch:
    """A finished list of one URL."""
    return finished("a")


@pytest.fixture
def fresh(batch: Batch) -> Batch:
    """The same, finished just now."""
    batch.finished_at = timezone.now()
    batch.save()
    return batch


def finished(name: str, webhook: str = HOOK) -> Batch:
    resource(name)
    store(name)
    token = ApiToken.objects.first() or tokens.issue(ApiToken(name="sender", may_mirror=True)).row
    return reports.report(Sent([url(name)], "sender", webhook=webhook, token=token), NOW).batch


def arguments(batch: Batch) -> tuple[Argument, ...]:
    return webhooks.work_of(batch).arguments


def answered(status: int, *hops: Hop) -> Fetched:
    head = Head(status, HOOK, CIMultiDict(), hops=hops)
    return Fetched(head, Body(0, "", b""), TIMING)


def failed(failure: Failure = Failure.TRANSIENT, status: int | None = 500) -> Failed:
    return Failed(failure, "the server answered 500", TIMING, status)


def jobs() -> list[Claimed]:
    """What fetchers would be given now."""
    found: list[Claimed] = []
    while isinstance(job := connections.run(frontier.claim(f"w{len(found)}", "here")), Claimed):
        found.append(job)
    return found


def test_the_call_is_a_post_of_the_summary(batch: Batch, settings: Settings) -> None:
    settings.MIRROR_WEBHOOK_SECONDS = 1e9  # it was finished at a date of the tests
    call = TASK.fetch(*arguments(batch))
    assert (call.method, call.url) == ("POST", HOOK)
    assert call.headers["Content-Type"] == "application/json"
    assert call.limits.max_body_bytes == webhooks.MOST_ANSWER_BYTES
    told = json.loads(call.body)
    assert told == {
        "event": "batch.finished",
        "batch": str(batch.pk),
        "url": f"http://testserver/api/batches/{batch.pk}",
        "created_at": "2026-11-21T10:00:30Z",
        "finished_at": "2026-11-21T10:00:30Z",
        "total": 1,
        "steps": {"known": 1},
    }


def test_whoever_has_the_secret_can_check_the_signature(batch: Batch, settings: Any) -> None:
    assert batch.token is not None
    [old] = webhooks.secrets_of(batch.token.digest)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", [settings.SECRET_KEY]
    call = TASK.fetch(*arguments(batch))
    signatures = [one.removeprefix("sha256=") for one in call.headers["Tarry-Signature"].split(", ")]
    assert len(signatures) == 2
    new = webhooks.secrets_of(batch.token.digest)[0]
    for secret in (old, new):
        assert hmac.new(secret.encode(), call.body, hashlib.sha256).hexdigest() in signatures
    other = tokens.issue(ApiToken(name="other")).row
    assert set(webhooks.secrets_of(other.digest)).isdisjoint({old, new})


@pytest.mark.parametrize("outcome", [answered(200), answered(204), failed(Failure.TOO_BIG, 200)])
def test_an_answer_of_2xx_is_the_end_whatever_it_says(fresh: Batch, outcome: Fetched | Failed) -> None:
    assert TASK.prepare(outcome, *arguments(fresh)) == {}
    fresh.refresh_from_db()
    assert fresh.told_at
    assert (fresh.calls, fresh.call_at) == (1, None)
    with pytest.raises(PreparationError):
        TASK.fetch(*arguments(fresh))


def test_a_call_that_fails_is_made_again_later_and_later(fresh: Batch) -> None:
    pauses = []
    for _ in range(9):
        with pytest.raises(PreparationError) as error:
            TASK.prepare(failed(), *arguments(fresh))
        pauses.append(error.value.retry_seconds)
    assert pauses == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    fresh.refresh_from_db()
    assert (fresh.calls, fresh.told_at, fresh.answer) == (9, None, "the server answered 500")


def test_after_a_day_it_is_given_up(batch: Batch) -> None:
    Batch.objects.update(finished_at=NOW - 365 * 24 * HOUR)
    assert TASK.prepare(failed(), *arguments(batch)) == {}
    batch.refresh_from_db()
    assert batch.told_at
    assert batch.answer == "given up: the server answered 500"


@pytest.mark.parametrize("outcome", [failed(Failure.REFUSED, None), failed(Failure.PERMANENT, 410)])
def test_what_is_hopeless_is_given_up_at_once(batch: Batch, outcome: Failed) -> None:
    assert TASK.prepare(outcome, *arguments(batch)) == {}
    batch.refresh_from_db()
    assert batch.told_at
    assert batch.answer.startswith("given up")


@pytest.mark.parametrize("failure", [Failure.REFUSED, Failure.OURS])
def test_whoever_sent_the_list_is_told_of_no_address_of_a_private_network(batch: Batch, failure: Failure) -> None:
    with suppress(PreparationError):
        TASK.prepare(Failed(failure, "10.1.2.3 is in a private network", TIMING), *arguments(batch))
    batch.refresh_from_db()
    assert "10.1.2.3" not in progress.webhook_stands(batch, NOW)
    assert "this " in progress.webhook_stands(batch, NOW).lower()


def test_a_redirect_that_leaves_the_body_behind_is_no_call(fresh: Batch) -> None:
    with pytest.raises(PreparationError):
        TASK.prepare(answered(200, Hop(HOOK, 302)), *arguments(fresh))
    assert TASK.prepare(answered(200, Hop(HOOK, 308)), *arguments(fresh)) == {}


def test_two_lists_are_two_calls_to_one_address(batch: Batch, redis_servers: RedisServers) -> None:
    finished("b")
    assert call_due(NOW) == 2
    [first] = jobs()  # one at a time: politeness
    assert first.url.startswith(f"{HOOK}#")
    assert len(first.wishes) == 1


def test_what_is_under_way_is_not_published_again(batch: Batch, redis_servers: RedisServers) -> None:
    assert call_due(NOW) == 1
    assert call_due(NOW) == 0
    later = NOW + webhooks.LOOK_AGAIN
    assert call_due(later) == 0
    assert len(jobs()) == 1


def test_a_call_that_redis_has_lost_is_published_again(batch: Batch, redis_servers: RedisServers) -> None:
    assert call_due(NOW) == 1
    redis_servers.state.client.flushall()
    assert call_due(NOW + webhooks.LOOK_AGAIN) == 1
    assert len(jobs()) == 1


def test_calls_wait_while_redis_is_away(
    batch: Batch, redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "execute_patiently", connections.execute)
    redis_servers.state.stop()
    assert call_due(NOW) == 0
    redis_servers.state.start()
    connections.BREAKERS["state"].succeeded()
    assert call_due(NOW) == 1


def test_a_full_lane_is_tried_again(batch: Batch, redis_servers: RedisServers, settings: Any) -> None:
    settings.RETRY_LANES = {**settings.RETRY_LANES, webhooks.LANE: {**settings.RETRY_LANES[webhooks.LANE], "limit": 0}}
    assert call_due(NOW) == 0
    batch.refresh_from_db()
    assert batch.call_at is not None
    assert NOW < batch.call_at <= NOW + timedelta(minutes=5)


def test_a_webhook_that_nobody_could_call_is_given_up_after_a_week(batch: Batch) -> None:
    call_due(NOW + 8 * 24 * HOUR)
    batch.refresh_from_db()
    assert batch.answer == "given up: nobody could call it"


def test_a_list_without_a_webhook_calls_nobody(redis_servers: RedisServers) -> None:
    resource("a")
    store("a")
    reports.report(Sent([url("a")], "tests"), NOW)
    look_after_batches()
    assert jobs() == []


def test_without_a_token_it_is_not_signed(batch: Batch) -> None:
    ApiToken.objects.all().delete()
    assert "Tarry-Signature" not in TASK.fetch(*arguments(batch)).headers


def test_a_list_that_is_gone_is_told_to_nobody(batch: Batch) -> None:
    given = arguments(batch)
    batch.delete()
    with pytest.raises(PreparationError):
        TASK.fetch(*given)
    assert TASK.prepare(answered(200), *given) == {}


def test_a_list_is_called_for_when_it_is_finished_and_not_before(redis_servers: RedisServers) -> None:
    resource("a")
    batch = reports.report(Sent([url("a")], "tests", webhook=HOOK), NOW).batch
    assert call_due(NOW) == 0
    store("a")
    batches.settle([batches.name_of(batch.pk)], NOW)
    assert call_due(NOW) == 1


def test_a_list_that_was_finished_by_a_clock_that_was_ahead_is_called_for_now(
    batch: Batch, redis_servers: RedisServers
) -> None:
    Batch.objects.update(finished_at=NOW + HOUR, call_at=NOW + HOUR)
    assert call_due(NOW) == 1
    batch.refresh_from_db()
    assert (batch.finished_at, batch.call_at) == (NOW, NOW + webhooks.LOOK_AGAIN)
