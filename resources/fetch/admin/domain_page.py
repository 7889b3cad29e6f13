"""The report of a domain in the admin: its state now, its requests and refusals lately. Changes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, ExpressionWrapper, Func, IntegerField, Q
from django.db.models.sql.compiler import SQLCompiler

from resources import charts
from resources.charts import Chart, RateRow, RequestTally
from retry import stores
from retry.errors import StoreUnavailable

from ...humanize import format_duration
from .. import host_settings
from ..frontier import queue
from ..frontier.explain import (
    BLOCK_CAUSES,
    DomainState,
    ScopeProposal,
    explain_domain,
    parse_domain,
    propose_scope,
    summarise_domain,
)
from ..frontier.queue import configured_politeness
from ..http.limit_scopes import scope_domain
from ..http.messages import Failure
from ..models import FetchDomain, FetchTiming


class EpochSeconds(Func):
    """Whole seconds since 1970 of a moment, in SQLite and in PostgreSQL."""

    output_field = IntegerField()

    def as_sqlite(self, compiler: SQLCompiler, connection: Any, **context: Any) -> Any:
        # A template twice: here, and for the parameters. Fractions are cut off: SQLite rounds them up.
        return self.as_sql(
            compiler, connection, template="CAST(strftime('%%%%s', substr(%(expressions)s, 1, 19)) AS INTEGER)"
        )

    def as_postgresql(self, compiler: SQLCompiler, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="CAST(FLOOR(EXTRACT(EPOCH FROM %(expressions)s)) AS BIGINT)")


def count_requests(scopes: Sequence[str], since: datetime, until: datetime, step: timedelta) -> list[RequestTally]:
    """Counts requests and refusals under these scopes of a domain, in each step; the first begins at `since`."""
    seconds, begin = int(step.total_seconds()), int(since.timestamp())
    number = ExpressionWrapper((EpochSeconds("started_at") - begin) / seconds, output_field=IntegerField())
    found = (
        FetchTiming.objects.filter(scope__in=scopes, started_at__gte=since, started_at__lt=until)
        .order_by()
        .values(number=number)
        .annotate(requests=Count("*"), refused=Count("outcome", filter=Q(outcome=Failure.THROTTLED.value)))
        .values_list("number", "requests", "refused")
    )
    counts = {number: (requests, refused) for number, requests, refused in found}
    return [
        RequestTally(since + index * step, *counts.get(index, (0, 0))) for index in range(int((until - since) / step))
    ]


MAX_LATEST_TIMINGS = 20
CHART_HOURS = (1, 6, 24)
USUAL_CHART_HOURS = 6


@dataclass(frozen=True, slots=True)
class DomainReport:
    """The state of a domain, in a word, in sentences and as terms with their values.

    `is_held_up`: unblocking changes something.
    """

    word: str
    sentences: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    is_held_up: bool


def read_domain_report(scope: str) -> DomainReport | None:
    """Returns the domain's report; None if Redis does not answer."""
    try:
        now_ms, fields = stores.run_steps(queue.read_domain_record(scope))
        around = stores.run_steps(queue.read_surroundings(fields.get("egress", ""), scope))
    except StoreUnavailable:
        return None
    domain = parse_domain(scope, now_ms, fields, configured_politeness())
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    facts = (*_list_facts(domain, now, _last_egress(scope)), ("Fetcher", around.owner or "none runs"))
    is_held_up = bool(domain.blocked_for or domain.circuit_for or domain.circuit_opened or domain.bytes_for)
    return DomainReport(summarise_domain(domain), tuple(explain_domain(domain, around)), facts, is_held_up)


def read_domain_states(scopes: Sequence[str]) -> list[DomainState] | None:
    """Returns the states of many domains, read in one call; None if Redis does not answer."""
    try:
        now_ms, records = stores.run_steps(queue.read_domain_records(scopes))
    except StoreUnavailable:
        return None
    return [
        parse_domain(scope, now_ms, fields, configured_politeness())
        for scope, fields in zip(scopes, records, strict=True)
    ]


def list_egress_states(scope: str) -> list[tuple[FetchDomain, str]]:
    """Returns the rows of the domain's egresses, if it has several, each with its state in a word."""
    rows = list(host_settings.egress_rows(scope))
    found = read_domain_states([row.scope for row in rows]) if rows else []
    return [(row, summarise_domain(domain)) for row, domain in zip(rows, found or (), strict=False)]


def find_proposal(scope: str) -> ScopeProposal | None:
    """Returns the proposed scope for its limits, None if that is set already or cannot be known now."""
    name = scope_domain(scope)
    if not name:
        return None
    try:
        found = propose_scope(name, stores.run_steps(queue.read_refusals(name)))
    except StoreUnavailable:
        return None
    if found and FetchDomain.objects.filter(scope=found.name, counted_by=found.kind).exists():
        return None
    return found


def build_domain_chart(scope: str, now: datetime, hours: int) -> Chart[RateRow]:
    """Returns the chart of requests and refusals of the last hours, by all egresses."""
    step = charts.RATE_STEPS[hours]
    since, until = charts.chart_period(now, timedelta(hours=hours), step)
    return charts.draw_rate_chart(count_requests(_scope_names(scope), since, until, step), hours)


def latest_timings(scope: str) -> list[FetchTiming]:
    """Returns the timings that began last, by all egresses, the latest first."""
    return list(FetchTiming.objects.filter(scope__in=_scope_names(scope)).order_by("-started_at")[:MAX_LATEST_TIMINGS])


def _scope_names(scope: str) -> list[str]:
    return [scope, *(row.scope for row in host_settings.egress_rows(scope))]


def _last_egress(scope: str) -> str:
    last = FetchTiming.objects.filter(scope=scope).order_by("-started_at").values_list("egress", flat=True).first()
    return last or ""


def _list_facts(domain: DomainState, now: datetime, egress: str) -> Iterator[tuple[str, str]]:
    yield "Gap between requests", f"{domain.gap_seconds:.3g} s, {_format_origin(domain.is_gap_set)}"
    yield "Time of answers", f"{domain.answer_seconds:.3g} s" if domain.answer_seconds else "not known yet"
    yield "Crawl-delay (robots.txt)", _format_crawl_gap(domain)
    yield "In flight", f"{domain.in_flight} of {domain.most_in_flight}, {_format_origin(domain.is_cap_set)}"
    yield "Waiting", f"{domain.waiting:,} now, {domain.waiting_later:,} to be retried later"
    yield "Last slowed down", _format_last_cut(domain)
    yield "Failures in a row", f"{domain.failures:,}"
    yield "Circuit", _format_circuit(domain, now)
    yield "Block", _format_block(domain, now)
    yield "Last success", _format_ago(domain.last_success)
    yield "Egress", egress or "chosen by the system"


def _format_origin(is_set: bool) -> str:
    return "set by an admin" if is_set else "learnt"


def _format_crawl_gap(domain: DomainState) -> str:
    if domain.asks_robots:
        return "robots.txt is being fetched"
    return f"{domain.crawl_gap_seconds:.3g} s" if domain.crawl_gap_seconds else "none known"


def _format_last_cut(domain: DomainState) -> str:
    if domain.last_cut is None:
        return "never"
    refused = domain.refused_gap_seconds
    return _format_ago(domain.last_cut) + (f", refused at a gap of {refused:.3g} s" if refused else "")


def _format_circuit(domain: DomainState, now: datetime) -> str:
    if domain.circuit_for:
        return f"open until {_format_moment(now, domain.circuit_for)}"
    return "half open: one request at a time" if domain.circuit_opened else "closed"


def _format_block(domain: DomainState, now: datetime) -> str:
    if not domain.blocked_for:
        return "none"
    cause = BLOCK_CAUSES.get(domain.block_cause, "Cause unknown")
    return f"until {_format_moment(now, domain.blocked_for)}. {cause}."


def _format_moment(now: datetime, seconds: float) -> str:
    at = now + timedelta(seconds=seconds)
    day = "" if at.date() == now.date() else f"{at:%-d %B}, "
    return f"{day}{at:%H:%M:%S} UTC, in {format_duration(seconds)}"


def _format_ago(seconds: float | None) -> str:
    return "never" if seconds is None else f"{format_duration(-seconds)} ago"
