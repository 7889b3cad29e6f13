"""Takes a list of URLs in: looked up at once, asked for at once, settled as far as it is known."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from resources.fetching.addressing import targets
from resources.fetching.errors import FetchError
from resources.fetching.requests import is_sendable

from ..errors import MirrorError
from ..knowing import continuing, rules, seen, tallies
from ..knowing.models import MOST_URL_CHARACTERS, Batch, BatchItem, Step
from ..writing import blocking, wanting
from ..writing.wanting import Wanted
from . import batches, checking
from .batches import Sent
from .deciding import JOINED, Decision, Status, decide, read, storable

MOST_URLS = 10_000
MOST_WEBHOOK_BYTES = 1900
"""Its call is told from others by a fragment."""


class ReportError(MirrorError):
    """A list that is not taken."""


class DifferentReportError(ReportError):
    """The key that was sent along belongs to another list."""


class UnmadeReportError(ReportError):
    """The database does not take the list, and has no other of the same."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A list that was taken, now or when it was sent before, and what becomes of each of its URLs, in their order."""

    batch: Batch
    decisions: Sequence[Decision]
    is_new: bool


def report(sent: Sent, now: datetime) -> Reported:
    """Takes the list. Raises ReportError for one that is not taken, DatabaseError."""
    sent = replace(sent, referer=_checked_referer(sent.referer), webhook=_checked_webhook(sent.webhook))
    if not 1 <= len(sent.urls) <= MOST_URLS:
        raise ReportError(f"A list has 1 to {MOST_URLS:,} URLs.")
    if earlier := batches.find(sent, now):
        return _again(sent, earlier)
    decisions = _decisions(sent.urls, now)
    batch = batches.create(sent, decisions, now)
    if batch is None:
        earlier = batches.find(sent, now)
        if earlier is None:  # its token was deleted meanwhile, say
            raise UnmadeReportError("The list could not be taken. Send it again.")
        return _again(sent, earlier)
    _ask(batch, decisions, now)
    _count(decisions, now)
    return Reported(batch, decisions, is_new=True)


def _decisions(urls: Sequence[str], now: datetime) -> list[Decision]:
    blocked = blocking.blocked_hosts()
    named, refused = read(urls, rules.current_rules(), lambda host: blocking.is_blocked(host, blocked))
    known = seen.look_up(list({digest for one in named for digest in one.digests}))
    return sorted([*refused, *decide(named, checking.checked(known, now))], key=lambda decision: decision.position)


def _ask(batch: Batch, decisions: Sequence[Decision], now: datetime) -> None:
    """Asks for what is open, once each, and leaves word that the list waits for it."""
    open_ones = [one for one in decisions if one.status == "accepted"]
    if open_ones:
        waited_for = list({one.url_digest for one in open_ones})
        continuing.leave(waited_for, batches.name_of(batch.pk))
        wanting.want([Wanted(one.url_digest, one.url, one.host, batch.referer, now) for one in open_ones if one.asks])
        continuing.resume(wanting.ended(waited_for))  # before the name was left: nobody else goes on with it
    else:
        batches.finish(batch.pk, now)
        batch.refresh_from_db()


def _count(decisions: Sequence[Decision], now: datetime) -> None:
    tallies.count(tallies.REPORTED, len(decisions), now)
    steps = Counter(one.step or Step.KNOWN.value for one in decisions if one.step or one.detail == JOINED)
    for step, number in steps.items():
        tallies.count(step, number, now)


def _again(sent: Sent, batch: Batch) -> Reported:
    """The list as it stands by now."""
    items = list(BatchItem.objects.filter(batch=batch).order_by("position"))
    same = (batch.referer, batch.webhook) == (sent.referer, sent.webhook) and [item.url for item in items] == [
        storable(url, MOST_URL_CHARACTERS) for url in sent.urls
    ]
    if not same:
        raise DifferentReportError("This Idempotency-Key was sent with another list, less than a day ago.")
    return Reported(batch, [_standing(item) for item in items], is_new=False)


def _standing(item: BatchItem) -> Decision:
    """What has become of an item."""
    status: Status
    match item.step:
        case "":
            status = "accepted"
        case Step.FAILED:
            status = "failed"
        case Step.REFUSED:
            status = "refused"
        case _:
            status = "known"
    return Decision(
        position=item.position,
        url=item.url,
        status=status,
        step=item.step,
        url_digest=item.url_digest,
        blob_digest=item.blob_digest,
        detail=item.detail,
    )


def _checked_referer(text: str) -> str:
    if not text:
        return ""
    if not is_sendable(text) or not text.isascii():
        raise ReportError("The Referer holds what no header can.")
    _check_url(text, "Referer", MOST_URL_CHARACTERS)
    return text


def _checked_webhook(text: str) -> str:
    if text:
        _check_url(text, "webhook", MOST_WEBHOOK_BYTES)
    return text.partition("#")[0]


def _check_url(url: str, what: str, most_bytes: int) -> None:
    try:
        targets.parse(url, max_bytes=most_bytes)
    except FetchError as error:
        raise ReportError(f"The {what} is no URL that can be used: {error.detail}.") from error
