"""Takes in a list of URLs: looks all of them up, asks for the open ones, and settles the known ones.

Remembered states are compared with the rows of files, so that no answer names a file that is gone or was taken
down. A memory is wrong if a process was killed between writing a row and its memory, or if Redis was away just
then.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from resources import database
from resources.fetch.http import url_syntax
from resources.fetch.http.messages import FetchError, is_sendable

from .. import hosts, lookup, stats, url_rules
from ..errors import MirrorError
from ..ingest import url_outcome, wanted_urls
from ..ingest.wanted_urls import WantedUrl
from ..lookup import UrlStatus
from ..models import MAX_URL_CHARACTERS, Batch, BatchItem, Blob, DedupeStep, UrlState
from ..storage import retention, takedown
from . import batches
from .batches import SentList
from .classify import JOINED_DETAIL, ReportStatus, UrlDecision, decide_urls, name_urls, storable_text


def verify_known_urls(known: Mapping[str, UrlStatus], now: datetime) -> dict[str, UrlStatus]:
    """Returns the present states in public words. Wants URLs whose file is nowhere. Raises DatabaseError."""
    found = _compare_with_files(known)
    wanted = [url for url, one in known.items() if one.state is UrlState.WANTED]
    changed = (known.keys() - found.keys()) | set(wanted_urls.ended_urls(wanted))
    found |= _look_up_again(sorted(changed), now) if changed else {}
    failed = {url: one for url, one in found.items() if one.failure in url_outcome.PUBLIC_REASONS}
    return found | {url: replace(one, detail=url_outcome.PUBLIC_REASONS[one.failure]) for url, one in failed.items()}


def _look_up_again(urls: Sequence[str], now: datetime) -> dict[str, UrlStatus]:
    """Looks the URLs up in their rows. Repairs a row whose file is nowhere."""
    lookup.forget_statuses(urls)
    known = lookup.look_up_urls(urls)
    found = _compare_with_files(known)
    lost = sorted(known.keys() - found.keys())
    retention.want_urls_again(lost, now)
    return found | dict.fromkeys(lost, UrlStatus(UrlState.WANTED))


def _compare_with_files(known: Mapping[str, UrlStatus]) -> dict[str, UrlStatus]:
    """Returns the states but for those whose file has no row."""
    having = {
        url: one.blob_digest for url, one in known.items() if one.blob_digest and one.state is not UrlState.FAILED
    }
    there = _takedown_times(set(having.values()))
    found = {url: one for url, one in known.items() if url not in having or having[url] in there}
    why = (takedown.TAKEN_DOWN_FAILURE, takedown.TAKEN_DOWN_DETAIL)
    down = {url: UrlStatus(UrlState.FAILED, digest, *why) for url, digest in having.items() if there.get(digest)}
    return found | down


def _takedown_times(digests: Iterable[str]) -> dict[str, datetime | None]:
    """Returns the digests that have a row, and when each was taken down."""
    rows = Blob.objects.values_list("pk", "taken_down_at")
    portions = database.split_portions(digests, lookup.MAX_QUERY_ROWS)
    return dict(row for some in portions for row in rows.filter(pk__in=some))


MAX_URLS_PER_LIST = 10_000
MAX_WEBHOOK_URL_BYTES = 1900


class ReportError(MirrorError):
    """The list is not taken."""


class DifferentReportError(ReportError):
    """The idempotency key belongs to another list."""


class UnmadeReportError(ReportError):
    """The database does not take the list, and has no batch of the same list."""


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The batch of a list, made now or when it was sent before, and the decisions on its URLs, in their order."""

    batch: Batch
    decisions: Sequence[UrlDecision]
    is_new: bool


def report_urls(sent: SentList, now: datetime) -> ReportResult:
    """Takes the list in. Raises ReportError for a list that is not taken, and DatabaseError."""
    sent = replace(sent, referer=_check_referer(sent.referer), webhook=_check_webhook(sent.webhook))
    if not 1 <= len(sent.urls) <= MAX_URLS_PER_LIST:
        raise ReportError(f"A list has 1 to {MAX_URLS_PER_LIST:,} URLs.")
    earlier = batches.find_batch(sent, now)
    if earlier and (sent.idempotency_key or not batches.has_due_failures(earlier, now)):
        return _repeat_result(sent, earlier, now)
    decisions = _decide_list(sent, now)
    batch = batches.create_batch(sent, decisions, now)
    if batch is None:
        earlier = batches.find_batch(sent, now)
        if earlier is None:  # its token was deleted meanwhile, say
            raise UnmadeReportError("The list could not be stored. Send it again.")
        return _repeat_result(sent, earlier, now)
    _want_open_urls(batch, decisions, now)
    _count_tallies(decisions, now)
    return ReportResult(batch, decisions, is_new=True)


def _decide_list(sent: SentList, now: datetime) -> list[UrlDecision]:
    blocked = hosts.find_blocked_hosts()
    named, refused = name_urls(sent.urls, url_rules.current_rules(), lambda host: hosts.is_host_blocked(host, blocked))
    known = lookup.look_up_urls(list({digest for one in named for digest in one.digests}))
    present = verify_known_urls(known, now)
    decided = decide_urls(named, present, now)
    asker = sent.token.pk if sent.token else 0
    asked = [WantedUrl(one.url_digest, one.url, one.host, sent.referer, now, asker) for one in decided]
    if again := _want_refused_urls(asked, present, now):
        present |= dict.fromkeys(again, UrlStatus(UrlState.WANTED))
        decided = decide_urls(named, present, now)
    _want_due_urls(asked, present, now)
    return sorted([*refused, *decided], key=lambda decision: decision.position)


def _want_refused_urls(urls: Sequence[WantedUrl], known: Mapping[str, UrlStatus], now: datetime) -> set[str]:
    """Wants again what was refused with another signature or Referer."""
    refused = [one for one in urls if one.url_digest in known and wanted_urls.is_refused(known[one.url_digest])]
    return wanted_urls.want_refused_urls(refused, now) if refused else set()


def _want_due_urls(urls: Sequence[WantedUrl], known: Mapping[str, UrlStatus], now: datetime) -> None:
    """Wants again what failed long ago, and stored content that may have changed."""
    found = ((one, known.get(one.url_digest)) for one in urls)
    due = [one for one, status in found if status and wanted_urls.is_due(status, one.url, one.host, now)]
    if due:
        wanted_urls.want_due_urls(due, now)


def _want_open_urls(batch: Batch, decisions: Sequence[UrlDecision], now: datetime) -> None:
    """Asks for the open URLs of the batch, once each."""
    open_ones = [one for one in decisions if one.status == "accepted"]
    if open_ones:
        waited_for = list({one.url_digest for one in open_ones})
        asker = batch.token_id or 0
        wanted_urls.want_urls(
            [WantedUrl(one.url_digest, one.url, one.host, batch.referer, now, asker) for one in open_ones if one.asks]
        )
        # Those that ended before the batch had its items: no other process resumes it.
        lookup.resume_batches(wanted_urls.ended_urls(waited_for))
    else:
        batches.finish_batch(batch.pk, now)
        batch.refresh_from_db()


def _count_tallies(decisions: Sequence[UrlDecision], now: datetime) -> None:
    stats.count_urls(stats.REPORTED_STEP, len(decisions), now)
    steps = Counter(one.step or DedupeStep.KNOWN.value for one in decisions if one.step or one.detail == JOINED_DETAIL)
    for step, number in steps.items():
        stats.count_urls(step, number, now)


def _repeat_result(sent: SentList, batch: Batch, now: datetime) -> ReportResult:
    """Returns the batch of a list that was sent before, in its present state. Wants stored content that is due."""
    items = list(BatchItem.objects.filter(batch=batch).order_by("position"))
    same = (batch.referer, batch.webhook) == (sent.referer, sent.webhook) and [item.url for item in items] == [
        storable_text(url, MAX_URL_CHARACTERS) for url in sent.urls
    ]
    if not same:
        raise DifferentReportError("This Idempotency-Key was sent with another list, less than a day ago.")
    stored = [batches.want_item(batch, item, now) for item in items if item.step in batches.STORED_STEPS]
    _want_due_urls(stored, lookup.look_up_urls([one.url_digest for one in stored]), now)
    retry_times = wanted_urls.find_retry_times({item.url_digest for item in items if item.step == DedupeStep.FAILED})
    return ReportResult(batch, [_decision_of_item(item, retry_times) for item in items], is_new=False)


_STATUS_BY_STEP: Mapping[str, ReportStatus] = {
    batches.OPEN_STEP: "accepted",
    DedupeStep.FAILED: "failed",
    DedupeStep.REFUSED: "refused",
}


def _decision_of_item(item: BatchItem, retry_times: Mapping[str, datetime]) -> UrlDecision:
    return UrlDecision(
        position=item.position,
        url=item.url,
        status=_STATUS_BY_STEP.get(item.step, "known"),
        step=item.step,
        url_digest=item.url_digest,
        blob_digest=item.blob_digest,
        detail=item.detail,
        retry_at=retry_times.get(item.url_digest) if item.step == DedupeStep.FAILED else None,
    )


def _check_referer(text: str) -> str:
    if not text:
        return ""
    if not is_sendable(text) or not text.isascii():
        raise ReportError("The Referer has characters that a header field cannot have.")
    _check_url(text, "Referer", MAX_URL_CHARACTERS)
    return url_syntax.cut_fragment(text)


def _check_webhook(text: str) -> str:
    if text:
        _check_url(text, "webhook", MAX_WEBHOOK_URL_BYTES)
    return url_syntax.cut_fragment(text)


def _check_url(url: str, what: str, most_bytes: int) -> None:
    try:
        url_syntax.parse_target(url, max_bytes=most_bytes)
    except FetchError as error:
        raise ReportError(f"The {what} is not a usable URL: {error.detail}.") from error
