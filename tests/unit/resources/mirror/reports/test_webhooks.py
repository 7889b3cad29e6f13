"""Webhooks: called through the fetchers, signed, repeated until they are taken, and never lost."""

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
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from resources.fetch.frontier.jobs import ClaimedJob
from resources.fetch.http.messages import Body, Failure, Fetched, FetchFailed, Head, Hop, OutcomeTiming
from resources.mirror import lookup
from resources.mirror.models import Batch
from resources.mirror.reports import batches, report, webhooks
from resources.mirror.reports.batches import SentList
from resources.mirror.reports.webhooks import TASK, hand_over_due_calls
from resources.tokens import auth
from resources.tokens.models import ApiToken
from retry import stores
from retry.errors import PreparationError
from retry.work import Argument
from tests.conftest import RedisServers
from tests.support.documentation import code_block
from tests.support.frontier import claim
from tests.support.mirror_rows import HOUR, NOW, resource, store, stored_resource, url

pytestmark = pytest.mark.django_db

HOOK = "https://hooks.example.org/told?key=1"
TIMING = OutcomeTiming(0, 0.1)


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
    stored_resource(name)
    token = ApiToken.objects.first() or auth.issue_token(ApiToken(name="sender", may_mirror=True)).row
    return report.report_urls(SentList([url(name)], "sender", webhook=webhook, token=token), NOW).batch


def arguments(batch: Batch) -> tuple[Argument, ...]:
    return webhooks.webhook_work(batch).arguments


def answered(status: int, *hops: Hop) -> Fetched:
    head = Head(status, HOOK, CIMultiDict(), hops=hops)
    return Fetched(head, Body(0, "", b""), TIMING)


def failed(failure: Failure = Failure.TRANSIENT, status: int | None = 500) -> FetchFailed:
    return FetchFailed(failure, "the server answered 500", TIMING, status)


def jobs() -> list[ClaimedJob]:
    """The jobs that fetchers would be given now."""
    found: list[ClaimedJob] = []
    while isinstance(job := claim(worker=f"w{len(found)}"), ClaimedJob):
        found.append(job)
    return found


def test_the_call_is_a_post_of_the_summary(batch: Batch, settings: Settings) -> None:
    settings.MIRROR_WEBHOOK_SECONDS = 1e9  # it was finished at a date of the tests
    call = TASK.fetch(*arguments(batch))
    assert (call.method, call.url) == ("POST", HOOK)
    assert call.headers["Content-Type"] == "application/json"
    assert call.limits.max_body_bytes == webhooks.MAX_ANSWER_BYTES
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


def test_either_secret_verifies_a_call_while_keys_rotate(batch: Batch, settings: Any) -> None:
    assert batch.token is not None
    [old] = webhooks.webhook_secrets(batch.token.digest)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", [settings.SECRET_KEY]
    call = TASK.fetch(*arguments(batch))
    signatures = [one.removeprefix("sha256=") for one in call.headers["Tarry-Signature"].split(", ")]
    assert len(signatures) == 2
    new = webhooks.webhook_secrets(batch.token.digest)[0]
    for secret in (old, new):
        assert hmac.new(secret.encode(), call.body, hashlib.sha256).hexdigest() in signatures
        Webhook(secret).verify(call.body, dict(call.headers))
    other = auth.issue_token(ApiToken(name="other", may_mirror=True)).row
    assert set(webhooks.webhook_secrets(other.digest)).isdisjoint({old, new})


def test_a_captured_call_is_refused_when_it_is_sent_again_later(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    assert batch.token is not None
    receiver = Webhook(webhooks.webhook_secrets(batch.token.digest)[0])
    call = TASK.fetch(*arguments(batch))
    assert receiver.verify(call.body, dict(call.headers)) == json.loads(call.body)
    assert call.headers["webhook-id"] == str(batch.pk)

    later = dict(call.headers) | {"webhook-timestamp": str(int(call.headers["webhook-timestamp"]) + 1)}
    with pytest.raises(WebhookVerificationError, match="No matching signature"):
        receiver.verify(call.body, later)
    ten_minutes_ago = timezone.now() - timedelta(minutes=10)
    old = webhooks.sign_call(webhooks.webhook_secrets(batch.token.digest), str(batch.pk), ten_minutes_ago, call.body)
    with pytest.raises(WebhookVerificationError, match="too old"):
        receiver.verify(call.body, old)


def test_the_lines_of_the_documentation_verify_a_call_for_five_minutes(batch: Batch) -> None:
    assert batch.token is not None
    written: dict[str, Any] = {}
    exec(code_block("docs/api.md", "python", "webhook-timestamp"), written)
    is_genuine, [secret] = written["is_genuine"], webhooks.webhook_secrets(batch.token.digest)
    call = TASK.fetch(*arguments(batch))
    assert is_genuine(secret, call.body, call.headers)
    assert not is_genuine(secret, call.body + b" ", call.headers)
    six_minutes_ago = timezone.now() - timedelta(minutes=6)
    assert not is_genuine(secret, call.body, webhooks.sign_call([secret], str(batch.pk), six_minutes_ago, call.body))


def test_the_line_of_the_documentation_for_the_library_verifies_a_call(batch: Batch) -> None:
    assert batch.token is not None
    [secret] = webhooks.webhook_secrets(batch.token.digest)
    call = TASK.fetch(*arguments(batch))
    names: dict[str, Any] = {"secret": secret, "body": call.body, "headers": dict(call.headers)}
    exec(code_block("docs/api.md", "python", "standardwebhooks"), names)
    assert names["told"]["batch"] == str(batch.pk)


@pytest.mark.parametrize("outcome", [answered(200), answered(204), failed(Failure.TOO_BIG, 200)])
def test_an_answer_of_2xx_is_the_end_whatever_it_says(fresh: Batch, outcome: Fetched | FetchFailed) -> None:
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


@pytest.mark.parametrize(
    ("outcome", "age"),
    [
        pytest.param(failed(Failure.REFUSED, None), timedelta(), id="refused"),
        pytest.param(failed(Failure.PERMANENT, 410), timedelta(), id="gone"),
        pytest.param(failed(), 365 * 24 * HOUR, id="after a day"),
    ],
)
def test_what_is_hopeless_is_given_up(fresh: Batch, outcome: FetchFailed, age: timedelta) -> None:
    Batch.objects.update(finished_at=timezone.now() - age)
    assert TASK.prepare(outcome, *arguments(fresh)) == {}
    fresh.refresh_from_db()
    assert fresh.told_at
    assert fresh.answer == "given up: the server answered 500" or outcome.failure is Failure.REFUSED


@pytest.mark.parametrize("failure", [Failure.REFUSED, Failure.OURS])
def test_whoever_sent_the_list_is_told_of_no_address_of_a_private_network(batch: Batch, failure: Failure) -> None:
    with suppress(PreparationError):
        TASK.prepare(FetchFailed(failure, "10.1.2.3 is in a private network", TIMING), *arguments(batch))
    batch.refresh_from_db()
    assert "10.1.2.3" not in batches.describe_webhook(batch, NOW)
    assert "this " in batches.describe_webhook(batch, NOW).lower()


def test_a_redirect_that_leaves_the_body_behind_is_no_call(fresh: Batch) -> None:
    with pytest.raises(PreparationError):
        TASK.prepare(answered(200, Hop(HOOK, 302)), *arguments(fresh))
    assert TASK.prepare(answered(200, Hop(HOOK, 308)), *arguments(fresh)) == {}


def test_two_lists_are_two_calls_to_one_address(batch: Batch, redis_servers: RedisServers) -> None:
    finished("b")
    assert hand_over_due_calls(NOW) == 2
    [first] = jobs()  # one at a time: politeness
    assert first.url == HOOK
    assert len(first.waiters) == 1


def test_what_is_under_way_is_published_again_if_redis_lost_it(batch: Batch, redis_servers: RedisServers) -> None:
    assert hand_over_due_calls(NOW) == 1
    assert hand_over_due_calls(NOW) == 0
    later = NOW + webhooks.HAND_OVER_AGAIN_AFTER
    assert hand_over_due_calls(later) == 0
    redis_servers.state.client.flushall()
    assert hand_over_due_calls(later + webhooks.HAND_OVER_AGAIN_AFTER) == 1
    assert len(jobs()) == 1


def test_calls_wait_for_redis(batch: Batch, redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "execute_all_patiently", lambda server, calls: [*map(stores.execute_call, calls)])
    redis_servers.state.stop()
    assert hand_over_due_calls(NOW) == 0
    redis_servers.state.start()
    stores.BREAKERS["state"].succeeded()
    assert hand_over_due_calls(NOW) == 1


def test_a_full_lane_is_tried_again(batch: Batch, redis_servers: RedisServers, settings: Any) -> None:
    settings.RETRY_LANES = {
        **settings.RETRY_LANES,
        webhooks.CALL_LANE: {**settings.RETRY_LANES[webhooks.CALL_LANE], "limit": 0},
    }
    assert hand_over_due_calls(NOW) == 0
    batch.refresh_from_db()
    assert batch.call_at is not None
    assert NOW < batch.call_at <= NOW + timedelta(minutes=5)


def test_a_webhook_that_nobody_could_call_is_given_up_after_a_week(batch: Batch) -> None:
    hand_over_due_calls(NOW + 8 * 24 * HOUR)
    assert Batch.objects.get().answer == "given up: it could not be called"


def test_without_a_token_it_is_not_signed(batch: Batch) -> None:
    ApiToken.objects.all().delete()
    assert set(TASK.fetch(*arguments(batch)).headers) == {"Content-Type"}


def test_a_list_that_is_gone_is_told_to_nobody(batch: Batch) -> None:
    given = arguments(batch)
    batch.delete()
    with pytest.raises(PreparationError):
        TASK.fetch(*given)
    assert TASK.prepare(answered(200), *given) == {}


def test_a_list_with_a_webhook_is_called_for_when_it_is_finished_and_not_before(redis_servers: RedisServers) -> None:
    resource("a")
    sent = [SentList([url("a")], "tests", webhook=hook) for hook in (HOOK, "")]
    names = [lookup.batch_name(report.report_urls(each, NOW).batch.pk) for each in sent]
    assert hand_over_due_calls(NOW) == 0
    store("a")
    assert batches.settle_named_batches(names, NOW) == 2
    assert hand_over_due_calls(NOW) == 1


def test_a_list_finished_by_a_clock_that_was_ahead_is_called_for_now(batch: Batch, redis_servers: RedisServers) -> None:
    Batch.objects.update(finished_at=NOW + HOUR, call_at=NOW + HOUR)
    assert hand_over_due_calls(NOW) == 1
    batch.refresh_from_db()
    assert (batch.finished_at, batch.call_at) == (NOW, NOW + webhooks.HAND_OVER_AGAIN_AFTER)
