"""Explains why a domain gets no request right now, and proposes other scopes for its limits.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...humanize import format_duration
from .jobs import FETCH_LANES, Surroundings
from .politeness import Politeness


@dataclass(frozen=True, slots=True)
class DomainState:
    """The state of one domain. Moments are in seconds from now, negative for the past; None is never.

    `answer_seconds` is the mean time of its answers' heads, 0 if it is not known; `crawl_gap_seconds` the gap of its
    robots.txt; `asks_robots` is True while robots.txt is requested. `is_gap_of_answers`: the time of its answers makes
    the gap. So many at once as `refused_in_flight` were refused.
    """

    scope: str
    waiting: int
    waiting_later: int
    in_flight: int
    most_in_flight: int
    gap_seconds: float
    answer_seconds: float
    crawl_gap_seconds: float
    asks_robots: bool
    next_in: float | None
    blocked_for: float
    block_cause: str
    bytes_for: float
    failures: int
    circuit_opened: int
    circuit_for: float
    trouble_since: float | None
    last_cut: float | None
    refused_gap_seconds: float | None
    refused_in_flight: int | None
    last_request: float | None
    last_success: float | None
    last_status: str
    succeeded: int
    refused: int
    failed: int
    is_paused: bool
    is_gap_set: bool
    is_gap_of_answers: bool
    is_cap_set: bool


def parse_domain(scope: str, now_ms: float, fields: Mapping[str, str], politeness: Politeness) -> DomainState:
    """Parses a domain's record; an empty record is a domain without history."""

    def number(name: str, default: float = 0.0) -> float:
        return float(fields.get(name) or default)

    def moment(name: str) -> float | None:
        at = number(name)
        return (at - now_ms) / 1000 if at else None

    def left(name: str) -> float:
        return max(0.0, moment(name) or 0.0)

    waiting = sum(int(number(f"{lane}_{priority}")) for lane in FETCH_LANES for priority in (1, 2, 3))
    learnt_cap = min(int(number("cap", politeness.in_flight)), politeness.most_in_flight)
    usual_cap = int(number("set_cap", learnt_cap))
    learnt_gap = max(number("delay", politeness.delay_seconds * 1000), politeness.least_delay_seconds * 1000)
    answer_gap = politeness.answer_share * number("answer") / usual_cap if usual_cap > 1 else 0.0
    is_gap_set = bool(fields.get("set_delay"))
    asks_robots = bool(fields.get("robots_job"))
    return DomainState(
        scope=scope,
        waiting=waiting,
        waiting_later=int(number("later")),
        in_flight=int(number("in_flight")),
        most_in_flight=1 if number("opens") or asks_robots else usual_cap,
        gap_seconds=float(fields.get("set_delay") or max(learnt_gap, answer_gap)) / 1000,
        answer_seconds=number("answer") / 1000,
        crawl_gap_seconds=number("crawl") / 1000,
        asks_robots=asks_robots,
        next_in=moment("next"),
        blocked_for=left("block_until"),
        block_cause=fields.get("block_cause", ""),
        bytes_for=left("bytes_until"),
        failures=int(number("failures")),
        circuit_opened=int(number("opens")),
        circuit_for=left("circuit_until"),
        trouble_since=moment("trouble_since"),
        last_cut=moment("cut_at"),
        refused_gap_seconds=number("floor") / 1000 or None,
        refused_in_flight=int(number("cap_refused")) or None,
        last_request=moment("asked_at"),
        last_success=moment("ok_at"),
        last_status=fields.get("status", ""),
        succeeded=int(number("ok")),
        refused=int(number("throttled")),
        failed=int(number("failed")),
        is_paused=number("set_paused") == 1,
        is_gap_set=is_gap_set,
        is_gap_of_answers=not is_gap_set and answer_gap > learnt_gap,
        is_cap_set=bool(fields.get("set_cap")),
    )


@dataclass(frozen=True, slots=True)
class DomainAllowance:
    """The most that a domain is known to allow: requests in flight, and the least gap between them."""

    in_flight: int
    gap_seconds: float


def parse_allowance(fields: Mapping[str, str], politeness: Politeness) -> DomainAllowance:
    """Parses what a domain allows: an admin's limits, else the ceilings, narrowed by what it has refused.

    A learnt gap or number counts only as far as refusals prove it: all else may be learnt too slow.
    """

    def number(name: str) -> float:
        return float(fields.get(name) or 0)

    in_flight, gap_ms = politeness.most_in_flight, politeness.least_delay_seconds * 1000
    if number("cap_refused") > 1:
        in_flight = min(in_flight, max(int(number("cap_refused")) - 1, int(number("cap"))))
    if fields.get("cut_beside") == "0":  # refused with nothing else in flight
        gap_ms = max(gap_ms, min(number("floor"), number("delay")))
    set_gap = fields.get("set_delay")
    return DomainAllowance(max(1, int(number("set_cap")) or in_flight), (float(set_gap) if set_gap else gap_ms) / 1000)


BLOCK_CAUSES = {
    "asked": "The server asked for it (Retry-After)",
    "refused": "The server refused requests (429 or 503)",
    "admin": "An admin blocked it",
}


def explain_domain(domain: DomainState, around: Surroundings) -> list[str]:
    """Returns sentences: first the wait of the next request, then the background. Never empty."""
    elsewhere = _common_cause(around)
    background = [*_list_background(domain), *_list_owner(around)]
    if elsewhere and _could_be_asked(domain):
        return [elsewhere, *background]
    return [_explain_next_request(domain), *background, *([elsewhere] if elsewhere else [])]


def summarise_domain(domain: DomainState) -> str:
    """Returns the state of a domain in a few words, for lists."""
    if domain.is_paused:
        return "paused"
    if domain.blocked_for:
        return f"blocked for {format_duration(domain.blocked_for)}"
    if domain.circuit_for:
        return f"circuit open for {format_duration(domain.circuit_for)}"
    if domain.circuit_opened:
        return "circuit half open"
    if domain.asks_robots:
        return "fetching robots.txt"
    if domain.waiting or domain.waiting_later:
        return f"{domain.waiting + domain.waiting_later:,} waiting"
    return f"{domain.in_flight} in flight" if domain.in_flight else "idle"


def _could_be_asked(domain: DomainState) -> bool:
    """True if only a fetcher is missing, now or in a moment."""
    waits_for_long = domain.is_paused or domain.blocked_for or domain.circuit_for
    return bool(domain.waiting or domain.waiting_later) and not waits_for_long


def _common_cause(around: Surroundings) -> str:
    """Returns the cause of delay that all domains share; empty if there is none."""
    if not around.fetchers:
        return "No fetcher runs: nothing is fetched from any domain. Start `fetch`."
    away = ", ".join(around.without_network)
    if away and len(around.without_network) == around.machines:
        return f"The network is down ({away}): known servers do not answer. One request at a time tests it."
    return f"The network of {away} is down: other fetchers take over." if away else ""


def _list_owner(around: Surroundings) -> list[str]:
    machine, _, name = around.owner.rpartition(":")
    return [f"Fetcher {name} of {machine} sends its requests."] if machine else []


def _explain_next_request(domain: DomainState) -> str:
    if domain.is_paused:
        return "Paused by an admin: nothing is fetched until it is resumed."
    if domain.asks_robots:
        return "robots.txt is being fetched: other requests wait for it."
    if not domain.waiting:
        if domain.blocked_for:
            return f"{_explain_block(domain)}: no requests for {format_duration(domain.blocked_for)}."
        if domain.circuit_for:
            return f"{_explain_circuit(domain)}, for {format_duration(domain.circuit_for)}."
        return _explain_empty_queue(domain)
    waits = _list_waits(domain)
    if not waits:
        return "The next request is due, and waits for a free fetcher slot."
    seconds, reason = max(waits)
    return reason if seconds == _UNTIL_AN_END else f"{reason}: the next request is sent in {format_duration(seconds)}."


def _explain_block(domain: DomainState) -> str:
    return f"Blocked. {BLOCK_CAUSES.get(domain.block_cause, 'It is blocked')}"


def _explain_circuit(domain: DomainState) -> str:
    return f"Circuit open after {_format_count(domain.failures, 'failure')} in a row"


_UNTIL_AN_END = float("inf")
_MIN_GAP_SHARE = 0.89
"""Gaps are within 10 % at random."""


def _list_waits(domain: DomainState) -> list[tuple[float, str]]:
    """Returns the reasons for the next request's delay, each with its seconds."""
    found: list[tuple[float, str]] = []
    if domain.in_flight >= domain.most_in_flight:
        most = f"{domain.in_flight} of {domain.most_in_flight} requests in flight"
        found.append((_UNTIL_AN_END, f"{most}: the next request is sent when one of them ends."))
    if domain.blocked_for:
        found.append((domain.blocked_for, _explain_block(domain)))
    if domain.circuit_for:
        found.append((domain.circuit_for, _explain_circuit(domain)))
    if domain.bytes_for:
        found.append((domain.bytes_for, "The limit of bytes per second is reached"))
    if domain.next_in and domain.next_in > 0:
        found.append((domain.next_in, _explain_spacing(domain, domain.next_in)))
    return found


def _explain_spacing(domain: DomainState, next_in: float) -> str:
    """Returns why the next request is so far from the last one. Only jobs that obey robots.txt keep its gap."""
    since_last, crawl_gap = next_in - (domain.last_request or 0), domain.crawl_gap_seconds
    if not domain.is_gap_set and crawl_gap > domain.gap_seconds and since_last > crawl_gap * _MIN_GAP_SHARE:
        return f"robots.txt asks for {crawl_gap:.3g} s between requests"
    return f"Requests are {domain.gap_seconds:.3g} s apart"


def _explain_empty_queue(domain: DomainState) -> str:
    if domain.waiting_later:
        return f"Nothing is due: {_format_count(domain.waiting_later, 'request')} to be retried later."
    return f"Nothing is queued; {domain.in_flight} in flight." if domain.in_flight else "Nothing is queued."


def _list_background(domain: DomainState) -> list[str]:
    waiting = _format_count(domain.waiting, "request")
    lines = [
        f"{waiting} waiting, {domain.in_flight} of {domain.most_in_flight} in flight.",
        f"Requests are {domain.gap_seconds:.3g} s apart{', set by an admin' if domain.is_gap_set else ''}.",
    ]
    if domain.is_gap_of_answers:
        lines.append(f"Its answers take {domain.answer_seconds:.3g} s: a share of that makes the gap.")
    if domain.crawl_gap_seconds:
        lines.append(_explain_crawl_delay(domain))
    if domain.is_cap_set:
        lines.append("The limit of requests in flight was set by an admin.")
    if domain.last_cut is not None and domain.refused_gap_seconds:
        refused = f"{domain.refused_gap_seconds:.3g} s apart"
        lines.append(f"Slowed down {format_duration(-domain.last_cut)} ago: requests {refused} were refused.")
    if domain.refused_in_flight:
        lines.append(f"{domain.refused_in_flight} requests at once were refused: fewer are in flight.")
    if domain.circuit_opened:
        lines.append(f"Failed {_format_count(domain.failures, 'time')} in a row: one request at a time tests it.")
    if domain.trouble_since is not None:
        lines.append(f"No success for {format_duration(-domain.trouble_since)}.")
    if domain.last_request is not None:
        answer = f", answered {domain.last_status}" if domain.last_status else ""
        lines.append(f"Last request {format_duration(-domain.last_request)} ago{answer}.")
    counts = f"{domain.succeeded:,} succeeded, {domain.refused:,} refused, {domain.failed:,} failed"
    return [*lines, f"So far: {counts}."]


def _explain_crawl_delay(domain: DomainState) -> str:
    asked = f"robots.txt asks for {domain.crawl_gap_seconds:.3g} s between requests"
    holds = "the gap set by an admin applies instead" if domain.is_gap_set else "requests that obey it keep this gap"
    return f"{asked}: {holds}."


def _format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


BURST_GAP_SECONDS = 10.0
"""Refusals of several hosts within so long have one cause."""
MIN_BURSTS = 2
MIN_REFUSALS_ALONE = 10


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """One 429: when (Unix seconds), by which host, at which path scope, under which scope's limits."""

    at: float
    host: str
    path: str
    scope: str


@dataclass(frozen=True, slots=True)
class ScopeProposal:
    """Proposal to count the limits of `name` by `kind` (registrable, host or path), because of `why`."""

    name: str
    kind: str
    why: str


def propose_scope(registrable: str, refusals: Sequence[RefusedRequest]) -> ScopeProposal | None:
    """Proposes a wider scope if hosts with own limits refuse at once, a narrower one if one host or path does alone."""
    if not refusals:
        return None
    bursts = [burst for burst in _group_bursts(refusals) if len({refusal.scope for refusal in burst}) > 1]
    hosts = sorted({refusal.host for refusal in refusals})
    if len(bursts) >= MIN_BURSTS:
        together = sorted({refusal.host for burst in bursts for refusal in burst})
        return ScopeProposal(
            registrable, "registrable", f"{', '.join(together[:5])} refused requests at the same time."
        )
    scopes = {refusal.scope for refusal in refusals}
    if len(refusals) < MIN_REFUSALS_ALONE or len(hosts) > 1:
        return None
    if scopes == {registrable} and hosts != [registrable]:
        return ScopeProposal(hosts[0], "host", f"Only the host {hosts[0]} refuses requests.")
    paths = {refusal.path for refusal in refusals}
    if scopes == set(hosts) and len(paths) == 1:
        return ScopeProposal(hosts[0], "path", f"Only {paths.pop()} refuses requests.")
    return None


def _group_bursts(refusals: Sequence[RefusedRequest]) -> list[list[RefusedRequest]]:
    """Groups refusals that follow one another closely, oldest first."""
    bursts: list[list[RefusedRequest]] = []
    for refusal in sorted(refusals, key=lambda one: one.at):
        if bursts and refusal.at - bursts[-1][-1].at <= BURST_GAP_SECONDS:
            bursts[-1].append(refusal)
        else:
            bursts.append([refusal])
    return bursts
