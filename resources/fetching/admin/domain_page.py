"""What the admin tells of a domain: how it stands now, how it went lately. Changes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from resources import charts
from retry import connections
from retry.errors import StoreUnavailable

from ..addressing.scopes import site
from ..keeping import limiting
from ..keeping.models import FetchDomain, FetchTiming
from ..queues import frontier
from ..queues.domains import Domain, read
from ..queues.explaining import BLOCKS, duration, explain, in_a_word
from ..queues.proposing import Proposal, propose
from ..queues.tuning import politeness
from . import charting, rates
from .charting import Chart

MOST_LATEST = 20
HOURS = (1, 6, 24)
USUAL_HOURS = 6


@dataclass(frozen=True, slots=True)
class Standing:
    """How a domain stands, in a word, in sentences and as terms with what stands for them."""

    word: str
    sentences: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    is_held_up: bool


def standing(scope: str) -> Standing | None:
    """How it stands; None when Redis does not answer."""
    try:
        now_ms, fields = connections.run(frontier.look(scope))
        around = connections.run(frontier.around(fields.get("egress", "")))
    except StoreUnavailable:
        return None
    domain = read(scope, now_ms, fields, politeness())
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    facts = tuple(_facts(domain, now, _egress(scope)))
    return Standing(in_a_word(domain), tuple(explain(domain, around)), facts, is_held_up(domain))


def is_held_up(domain: Domain) -> bool:
    """Whether unblocking changes something."""
    return bool(domain.blocked_for or domain.circuit_for or domain.circuit_opened or domain.bytes_for)


def domains(scopes: Sequence[str]) -> list[Domain] | None:
    """How many domains stand, asked in one call; None when Redis does not answer."""
    try:
        now_ms, records = connections.run(frontier.look_at_all(scopes))
    except StoreUnavailable:
        return None
    return [read(scope, now_ms, fields, politeness()) for scope, fields in zip(scopes, records, strict=True)]


def ways(scope: str) -> list[tuple[FetchDomain, str]]:
    """The domain's ways out, as far as it was asked by several, and how each stands."""
    rows = list(limiting.ways_of(scope))
    found = domains([row.scope for row in rows]) if rows else []
    return [(row, in_a_word(domain)) for row, domain in zip(rows, found or (), strict=False)]


def proposal(scope: str) -> Proposal | None:
    """What limits had better count for, unless that is set already or cannot be known now."""
    name = site(scope)
    if not name:
        return None
    try:
        found = propose(name, connections.run(frontier.evidence(name)))
    except StoreUnavailable:
        return None
    if found and FetchDomain.objects.filter(scope=found.name, counted_by=found.kind).exists():
        return None
    return found


def chart(scope: str, now: datetime, hours: int) -> Chart:
    """Requests and refusals of the last hours, by whichever way out."""
    step = charting.STEPS[hours]
    since, until = charts.reach(now, timedelta(hours=hours), step)
    return charting.chart(rates.tallies(_names(scope), since, until, step), hours)


def latest(scope: str) -> list[FetchTiming]:
    """The timings that began last, by whichever way out, the latest first."""
    return list(FetchTiming.objects.filter(scope__in=_names(scope)).order_by("-started_at")[:MOST_LATEST])


def _names(scope: str) -> list[str]:
    return [scope, *(row.scope for row in limiting.ways_of(scope))]


def _egress(scope: str) -> str:
    last = FetchTiming.objects.filter(scope=scope).order_by("-started_at").values_list("egress", flat=True).first()
    return last or ""


def _facts(domain: Domain, now: datetime, egress: str) -> Iterator[tuple[str, str]]:
    yield "Gap between requests", f"{domain.gap_seconds:.3g} s, {_origin(domain.is_gap_set)}"
    yield "Gap by robots.txt", _crawl_gap(domain)
    yield "In flight", f"{domain.in_flight} of {domain.most_in_flight}, {_origin(domain.is_cap_set)}"
    yield "Waiting", f"{domain.waiting:,} now, {domain.waiting_later:,} to be tried again later"
    yield "Last slowed down", _last_cut(domain)
    yield "Failures in a row", f"{domain.failures:,}"
    yield "Circuit", _circuit(domain, now)
    yield "Block", _block(domain, now)
    yield "Last success", _ago(domain.last_success)
    yield "Way out", egress or "as the system chooses it"


def _origin(is_set: bool) -> str:
    return "set by an admin" if is_set else "as learnt"


def _crawl_gap(domain: Domain) -> str:
    if domain.asks_robots:
        return "being asked for"
    return f"{domain.crawl_gap_seconds:.3g} s" if domain.crawl_gap_seconds else "none that is known"


def _last_cut(domain: Domain) -> str:
    if domain.last_cut is None:
        return "never"
    refused = domain.refused_gap_seconds
    return _ago(domain.last_cut) + (f", when {refused:.3g} s apart was refused" if refused else "")


def _circuit(domain: Domain, now: datetime) -> str:
    if domain.circuit_for:
        return f"open until {_moment(now, domain.circuit_for)}"
    return "half open: one request at a time tries it" if domain.circuit_opened else "closed"


def _block(domain: Domain, now: datetime) -> str:
    if not domain.blocked_for:
        return "none"
    return f"until {_moment(now, domain.blocked_for)}. {BLOCKS.get(domain.block_cause, 'Its cause is not known')}."


def _moment(now: datetime, seconds: float) -> str:
    at = now + timedelta(seconds=seconds)
    day = "" if at.date() == now.date() else f"{at:%-d %B}, "
    return f"{day}{at:%H:%M:%S} UTC, in {duration(seconds)}"


def _ago(seconds: float | None) -> str:
    return "never" if seconds is None else f"{duration(-seconds)} ago"
