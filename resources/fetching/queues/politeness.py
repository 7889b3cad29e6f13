"""The numbers that the frontier goes by. PURE: values with their units; settings may replace them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Politeness:
    """How a domain is treated, and how much may wait. Durations are in seconds.

    Rates are learnt as gaps between requests: a refusal makes the gap `cut` times as long, or `near_cut` times
    where about that was refused before, once for each event. Before any refusal a success makes it shorter by
    `first_step` of it. What was refused is the mean gap, in which the last one has `mean_share`. The gap comes
    back to `margin` times that in `back_requests` (to `asked_margin` times it where a pause was asked for), and is
    probed past it the further the longer nothing is refused: the scale of that is the longest of `probe`, of
    `probe_requests` at that gap, and of `probe_asked` times what Retry-After had asked for (of which `most_asked`
    counts).
    The number in flight grows by `cap_step` ÷ cap for each success that others waited for.
    """

    delay: float = 0.5
    least_delay: float = 0.02
    most_delay: float = 60
    in_flight: int = 2
    most_in_flight: int = 8
    bytes_per_second: int = 10_000_000
    most_retry_after: float = 86_400

    cut: float = 1.6
    near_cut: float = 1.25
    first_step: float = 0.02
    mean_share: float = 0.1
    margin: float = 1.03
    asked_margin: float = 1.06
    back_requests: int = 20
    probe: float = 10
    probe_requests: int = 250
    probe_asked: float = 22
    most_asked: float = 300
    cap_step: float = 0.125
    near_cap_step: float = 0.01

    expected: float = 1
    slow_after: float = 10
    took_share: float = 0.2
    """A request of a domain of which nothing is known is expected to take `expected`. One whose requests take
    `slow_after`, in a mean in which the last one has that share, is asked in the slow lane."""

    lease: float = 15
    most_lapses: int = 2
    backlog: int = 100_000
    domain_backlog: int = 10_000
    stall: float = 86_400
    retry_budget: float = 10
    retry_share: float = 0.1
    """Each request earns so much of a retry, up to the budget."""

    failures_to_open: int = 5
    circuit: float = 30
    most_circuit: float = 3600

    outage_hosts: int = 4
    outage_window: float = 20
    outage_try: float = 2
    outage: float = 3600
    """Hosts that answered in that time and that cannot be reached, within the window: our network is away."""

    paused: float = 60
    """When to ask again for what comes from a domain that an admin has paused."""

    kept: float = 30 * 86_400
    """How long what was learnt of a domain is kept after its last request."""


_PLAIN = (
    "in_flight",
    "most_in_flight",
    "bytes_per_second",
    "cut",
    "near_cut",
    "first_step",
    "mean_share",
    "margin",
    "asked_margin",
    "back_requests",
    "probe_requests",
    "probe_asked",
    "cap_step",
    "near_cap_step",
    "took_share",
    "most_lapses",
    "backlog",
    "domain_backlog",
    "retry_budget",
    "retry_share",
    "failures_to_open",
    "outage_hosts",
)
_TIMES = (
    "delay",
    "least_delay",
    "most_delay",
    "most_retry_after",
    "most_asked",
    "probe",
    "expected",
    "slow_after",
    "lease",
    "stall",
    "circuit",
    "most_circuit",
    "outage_window",
    "outage_try",
    "outage",
    "paused",
    "kept",
)


def rules(politeness: Politeness) -> dict[str, float]:
    """As the scripts read them: plain numbers, and durations in milliseconds."""
    plain = {name: getattr(politeness, name) for name in _PLAIN}
    return plain | {f"{name}_ms": getattr(politeness, name) * 1000 for name in _TIMES}
