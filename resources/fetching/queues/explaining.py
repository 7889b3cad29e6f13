"""Says in words why nothing is fetched from a domain right now, or what its next request waits for. PURE."""

from .domains import Domain
from .jobs import Around

BLOCKS = {
    "asked": "The site asked for it (Retry-After)",
    "refused": "The site refused requests (429 or 503)",
    "admin": "An admin has blocked it",
}


def explain(domain: Domain, around: Around) -> list[str]:
    """Sentences: first what the next request waits for, then what is known besides. Never empty."""
    elsewhere = _not_the_domain(around)
    if elsewhere and _could_be_asked(domain):
        return [elsewhere, *_background(domain)]
    return [_next_request(domain), *_background(domain), *filter(None, [elsewhere])]


def in_a_word(domain: Domain) -> str:
    """How the domain stands, for lists."""
    if domain.is_paused:
        return "paused"
    if domain.blocked_for:
        return f"blocked for {duration(domain.blocked_for)}"
    if domain.circuit_for:
        return f"circuit open for {duration(domain.circuit_for)}"
    if domain.circuit_opened:
        return "circuit open: one request tries it"
    if domain.asks_robots:
        return "asking for robots.txt"
    if domain.waiting or domain.waiting_later:
        return f"{domain.waiting + domain.waiting_later:,} waiting"
    return f"{domain.in_flight} in flight" if domain.in_flight else "quiet"


def _could_be_asked(domain: Domain) -> bool:
    """Whether nothing but a fetcher is missing, now or in a moment."""
    waits_for_long = domain.is_paused or domain.blocked_for or domain.circuit_for
    return bool(domain.waiting or domain.waiting_later) and not waits_for_long


def _not_the_domain(around: Around) -> str:
    """What keeps requests up that is no domain's matter; empty when nothing does."""
    if not around.fetchers:
        return "No fetcher runs: nothing is fetched, from no domain, until one does."
    away = ", ".join(around.without_network)
    if away and len(around.without_network) == around.machines:
        return f"The network is away ({away}): what answered before cannot be reached. One request at a time tries it."
    return f"The network of {away} is away: others fetch meanwhile." if away else ""


def _next_request(domain: Domain) -> str:
    if domain.is_paused:
        return "Paused by an admin: nothing is fetched until that is taken back."
    if domain.asks_robots:
        return "Its robots.txt is asked for: nothing else is sent until that has come."
    if not domain.waiting:
        return _left_alone(domain) or _nothing_waits(domain)
    waits = _waits(domain)
    if not waits:
        return "The next request is due: it is sent as soon as a fetcher has room."
    seconds, reason = max(waits)
    return reason if seconds == _UNTIL_AN_END else f"{reason}: the next request is sent in {duration(seconds)}."


def _left_alone(domain: Domain) -> str:
    """Why nothing is even taken in, where that is so."""
    if domain.blocked_for:
        cause = BLOCKS.get(domain.block_cause, "It is blocked")
        return f"Blocked. {cause}: nothing is sent for {duration(domain.blocked_for)}."
    if domain.circuit_for:
        return f"Left alone after {_times(domain.failures, 'failure')} in a row, for {duration(domain.circuit_for)}."
    return ""


_UNTIL_AN_END = float("inf")
_LEAST_OF_GAP = 0.89
"""Gaps are within 10 % at random."""


def _waits(domain: Domain) -> list[tuple[float, str]]:
    """What holds the next request up, with how long it does."""
    found: list[tuple[float, str]] = []
    if domain.in_flight >= domain.most_in_flight:
        most = f"{domain.in_flight} in flight, and no more than {domain.most_in_flight} may be"
        found.append((_UNTIL_AN_END, f"{most}: the next request is sent when one of them ends."))
    if domain.blocked_for:
        cause = BLOCKS.get(domain.block_cause, "It is blocked")
        found.append((domain.blocked_for, f"Blocked. {cause}"))
    if domain.circuit_for:
        found.append((domain.circuit_for, f"Left alone after {_times(domain.failures, 'failure')} in a row"))
    if domain.bytes_for:
        found.append((domain.bytes_for, "It has sent as many bytes as it may for now"))
    if domain.next_in and domain.next_in > 0:
        found.append((domain.next_in, _spacing(domain, domain.next_in)))
    return found


def _spacing(domain: Domain, next_in: float) -> str:
    """Why the next request is so far from the last one. Only those that obey robots.txt leave its gap."""
    since_last, crawl_gap = next_in - (domain.last_request or 0), domain.crawl_gap_seconds
    if not domain.is_gap_set and crawl_gap > domain.gap_seconds and since_last > crawl_gap * _LEAST_OF_GAP:
        return f"Its robots.txt asks for {crawl_gap:.3g} s between requests"
    return f"Requests are {_gap(domain)} apart"


def _nothing_waits(domain: Domain) -> str:
    if domain.waiting_later:
        return f"Nothing is due: {_times(domain.waiting_later, 'request')} to be tried again later."
    return f"Nothing waits; {domain.in_flight} in flight." if domain.in_flight else "Nothing waits to be fetched."


def _background(domain: Domain) -> list[str]:
    said = [f"{_times(domain.waiting, 'request')} waiting, {domain.in_flight} of {domain.most_in_flight} in flight."]
    said.append(f"Requests are {_gap(domain)} apart{', as an admin has set it' if domain.is_gap_set else ''}.")
    if domain.crawl_gap_seconds:
        said.append(_crawl_delay(domain))
    if domain.is_cap_set:
        said.append("How many may be in flight was set by an admin.")
    if domain.last_cut is not None and domain.refused_gap_seconds:
        refused = f"{domain.refused_gap_seconds:.3g} s apart"
        said.append(f"Slowed down {duration(-domain.last_cut)} ago, when requests {refused} were refused.")
    if domain.circuit_opened:
        said.append(f"It has failed {_times(domain.failures, 'time')} in a row: one request at a time tries it.")
    if domain.trouble_since is not None:
        said.append(f"No success for {duration(-domain.trouble_since)}.")
    if domain.last_request is not None:
        answer = f", answered {domain.last_status}" if domain.last_status else ""
        said.append(f"Last asked {duration(-domain.last_request)} ago{answer}.")
    counts = f"{domain.succeeded:,} succeeded, {domain.refused:,} refused, {domain.failed:,} failed"
    return [*said, f"So far: {counts}."]


def _crawl_delay(domain: Domain) -> str:
    asked = f"Its robots.txt asks for {domain.crawl_gap_seconds:.3g} s between requests"
    holds = "what an admin has set holds instead" if domain.is_gap_set else "requests that obey it leave as much"
    return f"{asked}: {holds}."


def _gap(domain: Domain) -> str:
    return f"{domain.gap_seconds:.3g} s"


def _times(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A duration as people say it: two units at the most."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    for name, size, smaller, small_size in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // small_size
            return f"{whole // size} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"
