"""Calls webhooks with new entries: signed POSTs in batches, by the fetchers, as for all requests to other sites.

Each webhook follows the change log by its own cursor. A pass writes the next batch as a row, together with the
cursor: it is delivered at least once, under one id. A batch that is not taken is repeated after longer and longer
pauses, then given up, for people to send again. Other batches of the webhook and other webhooks do not wait for it.

Calls are signed as Standard Webhooks says (https://www.standardwebhooks.com).
"""

import logging
import secrets
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import F, Q
from standardwebhooks import Webhook as Signer

from resources import locks
from resources.database import write_turn
from resources.fetch import conf, dispatch
from resources.fetch.dispatch import QueuedWork, UrlRefused, WorkEnqueued
from resources.fetch.http.messages import (
    Failure,
    Fetched,
    FetchFailed,
    FetchRequest,
    NotModified,
    UnreadableSealError,
)
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument, Work

from . import credentials
from .change_rows import Webhook, WebhookCall
from .changes import log
from .changes.log import ChangePage, PageBounds
from .changes.positions import ChangeCursor, ChangeScope
from .errors import CursorError, FeedError
from .models import ALL_SLUG, Category, Entry
from .pages import change_page, entry_filters, entry_search
from .pages.search_terms import SearchQuery

TASK_NAME, LANE = "feeds.call_webhook", "fetch.calls"
BATCH_BOUNDS = PageBounds(100, 500_000)
MAX_WAITING_CALLS = 10
"""Batches of one webhook that are not delivered yet: the change log keeps the rest."""
MAX_PAGES = 20
"""Pages of the log that one pass reads for one webhook."""
MAX_HANDED_OVER = 100
MAX_ANSWER_BYTES = 65_536
FIRST_PAUSE, MAX_PAUSE = timedelta(seconds=30), timedelta(hours=1)
HAND_OVER_AGAIN_AFTER = timedelta(minutes=1)
"""The time after which a call is handed over again: it joins its own claim, if that is still there."""
PASS_LOCK, PASS_LOCK_SECONDS = "feeds:calling", 30
OUTAGE_RETRY_SECONDS = 5.0
SECRET_BYTES = 32
_BODYLESS_REDIRECTS = frozenset({301, 302, 303})
_HOPELESS_FAILURES = frozenset({Failure.REFUSED, Failure.EXPIRED})
_GONE_STATUS = 410

_log = logging.getLogger("tarry.feeds")


def make_secret() -> str:
    """Returns a new secret as Standard Webhooks writes it."""
    return f"whsec_{b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"


def call_webhooks(now: datetime) -> int:
    """Makes one pass; returns the number of calls handed over. Does nothing while another one runs.

    Raises StoreUnavailable and DatabaseError.
    """

    def call() -> int:
        remove_orphans()
        for webhook in Webhook.objects.filter(enabled=True):
            try:
                write_batches(webhook, now)
            except FeedError as error:  # its search: the others go on, and it does in the next pass
                _log.warning("a webhook waits", extra={"webhook": webhook.name, "error": str(error)})
        return hand_over_due_calls(now)

    return locks.run_alone(PASS_LOCK, PASS_LOCK_SECONDS, call)


def remove_orphans() -> None:
    """Deletes webhooks of feeds and categories that an earlier version deleted. Raises DatabaseError."""
    of_feed, of_category = Q(feed__isnull=False, feed__slug=None), Q(category__isnull=False, category__slug=None)
    Webhook.objects.filter(of_feed | of_category).delete()


def write_batches(webhook: Webhook, now: datetime) -> None:
    """Writes the batches of what came since the webhook's cursor, as far as there is room. Raises DatabaseError."""
    room = MAX_WAITING_CALLS - webhook.calls.filter(due_at__isnull=False).count()
    for _ in range(MAX_PAGES):
        if room <= 0:
            return
        cursor = _find_cursor(webhook)
        select = log.select_changes if webhook.with_changes else log.select_arrivals
        page = entry_filters.narrow_page(select(cursor, BATCH_BOUNDS))
        if str(page.cursor) != webhook.cursor:
            room -= _write_page(webhook, page, _choose_changes(webhook, page), now)
        if not page.has_more:
            return


def _find_cursor(webhook: Webhook) -> ChangeCursor:
    """The webhook's place in its present selection. One that cannot be read on from becomes the log's end."""
    scope = _find_scope(webhook)
    try:
        if webhook.cursor:
            return log.read_cursor(str(replace(ChangeCursor.read(webhook.cursor), scope=scope)), scope)
    except CursorError as error:
        _log.warning("a webhook misses changes", extra={"webhook": webhook.name, "error": str(error)})
    return log.start_cursor(scope, at_head=True)


def _find_scope(webhook: Webhook) -> ChangeScope:
    if webhook.feed_id is not None:
        return ChangeScope("f", webhook.feed_id)
    if webhook.category_id is not None:
        return ChangeScope("c", webhook.category_id)
    return ChangeScope("c", Category.objects.get(slug=ALL_SLUG).pk)


def _choose_changes(webhook: Webhook, page: ChangePage) -> ChangePage:
    """The changes that the webhook wants: removals, and entries with all of its words."""
    if not webhook.words:
        return page
    numbers = [row.pk for row in page.changes if isinstance(row, Entry)]
    chosen = entry_search.choose_matches(SearchQuery.read("words", webhook.words), numbers)
    return replace(page, changes=tuple(row for row in page.changes if not isinstance(row, Entry) or row.pk in chosen))


def _write_page(webhook: Webhook, page: ChangePage, chosen: ChangePage, now: datetime) -> bool:
    """Writes the batch and the cursor together. Returns False if there is no batch, or another process wrote it."""
    changes = change_page.describe_changes(chosen)["changes"]
    with write_turn(), transaction.atomic():
        unchanged = Webhook.objects.filter(pk=webhook.pk, cursor=webhook.cursor)
        if not unchanged.update(cursor=str(page.cursor)):
            return False
        webhook.cursor = str(page.cursor)
        if changes:
            write_call(webhook, "entries.changed" if webhook.with_changes else "entries.new", changes, now)
    return bool(changes)


def write_call(webhook: Webhook, event: str, changes: Sequence[Mapping[str, Any]], now: datetime) -> WebhookCall:
    """Writes a call, which the next pass hands over. Raises DatabaseError."""
    data = {"webhook": webhook.name, "changes": list(changes)}
    body = change_page.write_json({"type": event, "timestamp": now, "data": data})
    times = dict.fromkeys(("created_at", "began_at", "due_at"), now)
    return WebhookCall.objects.create(webhook=webhook, body=body, entries=len(changes), **times)


def send_again(calls: Collection[UUID], now: datetime) -> int:
    """Makes calls that were given up due again, under their ids. Returns how many. Raises DatabaseError."""
    given_up = WebhookCall.objects.filter(pk__in=calls, due_at=None)
    return given_up.update(due_at=now, began_at=now, attempts=0)


def prune_given_up(before: datetime) -> int:
    """Deletes calls that were given up, made before then. Returns how many. Raises DatabaseError."""
    return WebhookCall.objects.filter(due_at=None, created_at__lt=before).delete()[0]


def hand_over_due_calls(now: datetime) -> int:
    """Hands due calls to the fetchers; returns how many. Calls under way stay as they are.

    Raises StoreUnavailable and DatabaseError.
    """
    due = WebhookCall.objects.filter(due_at__lte=now, webhook__enabled=True).select_related("webhook")
    calls = {call.pk: call for call in due.defer("body").order_by("due_at")[:MAX_HANDED_OVER]}
    outcomes = dispatch.claim_and_enqueue(
        {pk: QueuedWork(call_work(call)) for pk, call in calls.items()}, refresh=False
    )
    for pk, outcome in outcomes.items():
        match outcome:
            case UrlRefused():
                _give_up(calls[pk], "it is no address that can be called")
            case WorkEnqueued():
                _note(calls[pk], due_at=now + HAND_OVER_AGAIN_AFTER)
            case _:  # resting calls make room for others
                _note(calls[pk], due_at=now + timedelta(seconds=outcome.wait_seconds))
    return sum(isinstance(outcome, WorkEnqueued) for outcome in outcomes.values())


def call_work(call: WebhookCall) -> Work:
    arguments = (call.webhook.url, str(call.pk))
    return Work(f"fetch:hook:{call.pk}", "hook", LANE, LANE, TASK_NAME, arguments)


class CallWebhook:
    """The fetchers' task `feeds.call_webhook`. Its arguments are the address and the call."""

    obeys_robots = False
    """An admin has asked for the call."""

    def identify(self, *arguments: Argument) -> str:
        """Returns the call: it has a body of its own."""
        return str(arguments[1])

    def fetch(self, *arguments: Argument) -> FetchRequest | Mapping[str, Prepared]:
        """Returns the signed call; nothing if it is no longer wanted. Raises PreparationError."""
        try:
            call = _load_call(arguments)
            return {} if call is None else _build_request(call, datetime.now(UTC))
        except DatabaseError as error:
            raise _outage_error() from error

    def prepare(self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument) -> Mapping[str, Prepared]:
        """Notes the outcome of the call. Raises PreparationError when it has to be repeated."""
        try:
            call = _load_call(arguments)
            if call is not None:
                _settle_call(call, outcome, datetime.now(UTC))
        except DatabaseError as error:
            raise _outage_error() from error
        return {}


TASK = CallWebhook()


def _build_request(call: WebhookCall, now: datetime) -> FetchRequest | Mapping[str, Prepared]:
    try:
        secret = credentials.unseal_secret(call.webhook.sealed_secret)
    except UnreadableSealError:
        _give_up(call, "its secret cannot be read: SECRET_KEY has changed")
        return {}
    headers = {
        "Content-Type": "application/json",
        "webhook-id": str(call.pk),
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Signer(secret).sign(str(call.pk), now, call.body),
    }
    limits = replace(conf.fast_limits(), max_body_bytes=MAX_ANSWER_BYTES)
    body = call.body.encode()
    return FetchRequest(call.webhook.url, kind="webhook", method="POST", body=body, headers=headers, limits=limits)


def _settle_call(call: WebhookCall, outcome: Fetched | NotModified | FetchFailed, now: datetime) -> None:
    """Deletes a delivered call, gives up a hopeless one, else notes the next attempt. Raises PreparationError."""
    trouble = _find_trouble(outcome)
    if trouble is None:
        call.delete()
        delivered = {"delivered": F("delivered") + 1, "delivered_at": now, "answer": "delivered"}
        Webhook.objects.filter(pk=call.webhook_id).update(**delivered)
        return
    Webhook.objects.filter(pk=call.webhook_id).update(answer=trouble[:200])
    if _is_gone(outcome):
        Webhook.objects.filter(pk=call.webhook_id).update(enabled=False)
    if _is_hopeless(outcome) or now - call.began_at > timedelta(seconds=settings.FEEDS_WEBHOOK_SECONDS):
        _give_up(call, trouble)
        return
    pause = pause_after_attempts(call.attempts + 1, _asked_pause(outcome))
    _note(call, attempts=F("attempts") + 1, answer=trouble[:200], due_at=now + pause)
    raise PreparationError("The webhook did not take it.", retry_seconds=pause.total_seconds())


def pause_after_attempts(attempts: int, asked: timedelta | None = None) -> timedelta:
    """Returns the pause: 30 s, doubled with each attempt, up to an hour. The receiver may ask for a longer one."""
    pause = min(FIRST_PAUSE * (1 << min(attempts - 1, 20)), MAX_PAUSE)
    return pause if asked is None else min(max(pause, asked), MAX_PAUSE)


def _asked_pause(outcome: Fetched | NotModified | FetchFailed) -> timedelta | None:
    seconds = outcome.retry_after_seconds if isinstance(outcome, FetchFailed) else None
    return None if seconds is None else timedelta(seconds=seconds)


def _find_trouble(outcome: Fetched | NotModified | FetchFailed) -> str | None:
    """Returns, for people, why the call does not count as delivered; None after a 2xx with any body."""
    hops = outcome.hops if isinstance(outcome, FetchFailed) else outcome.head.hops
    if lost := [hop.status for hop in hops if hop.status in _BODYLESS_REDIRECTS]:
        return f"it redirects by {lost[0]}, which leaves the body behind"
    status = outcome.status if isinstance(outcome, FetchFailed) else outcome.head.status
    if status is not None and 200 <= status < 300:
        return None
    return outcome.detail.rstrip(".") if isinstance(outcome, FetchFailed) else f"it answered {status}"


def _is_gone(outcome: Fetched | NotModified | FetchFailed) -> bool:
    return isinstance(outcome, FetchFailed) and outcome.status == _GONE_STATUS


def _is_hopeless(outcome: Fetched | NotModified | FetchFailed) -> bool:
    return _is_gone(outcome) or (isinstance(outcome, FetchFailed) and outcome.failure in _HOPELESS_FAILURES)


def _give_up(call: WebhookCall, why: str) -> None:
    _log.warning("a call of a webhook was given up", extra={"webhook": call.webhook.name, "error": why})
    _note(call, due_at=None, answer=why[:200])


def _note(call: WebhookCall, **fields: Any) -> None:
    """Changes the row, unless it was given up meanwhile."""
    WebhookCall.objects.filter(~Q(due_at=None), pk=call.pk).update(**fields)


def _load_call(arguments: tuple[Argument, ...]) -> WebhookCall | None:
    """The call, if it is still wanted at this address."""
    calls = WebhookCall.objects.select_related("webhook").filter(due_at__isnull=False, webhook__enabled=True)
    return calls.filter(pk=UUID(str(arguments[1])), webhook__url=str(arguments[0])).first()


def _outage_error() -> PreparationError:
    return PreparationError("The webhooks cannot be read now.", status=503, retry_seconds=OUTAGE_RETRY_SECONDS)
