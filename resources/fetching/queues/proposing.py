"""Proposes another scope for limits, from which hosts and paths were refused together. PURE.

Proposes only: an admin decides. Evidence is what frontier.evidence() brings.
"""

from collections.abc import Sequence
from dataclasses import dataclass

TOGETHER_SECONDS = 10.0
"""Refusals of several hosts within so long have one cause."""
BURSTS = 2
ALONE = 10


@dataclass(frozen=True, slots=True)
class Refusal:
    """One 429: when (Unix seconds), by which host, at which path scope, under which scope's limits."""

    at: float
    host: str
    path: str
    scope: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """Count the limits of `name` by `kind` (registrable, host or path), because of `why`."""

    name: str
    kind: str
    why: str


def propose(registrable: str, refusals: Sequence[Refusal]) -> Proposal | None:
    """Wider when hosts with limits of their own refuse at once, narrower when one host or path does it alone."""
    if not refusals:
        return None
    bursts = [burst for burst in _bursts(refusals) if len({refusal.scope for refusal in burst}) > 1]
    hosts = sorted({refusal.host for refusal in refusals})
    if len(bursts) >= BURSTS:
        together = sorted({refusal.host for burst in bursts for refusal in burst})
        return Proposal(registrable, "registrable", f"{', '.join(together[:5])} refused requests at the same time.")
    scopes = {refusal.scope for refusal in refusals}
    if len(refusals) < ALONE or len(hosts) > 1:
        return None
    if scopes == {registrable} and hosts != [registrable]:
        return Proposal(hosts[0], "host", f"Of all hosts only {hosts[0]} refuses requests.")
    paths = {refusal.path for refusal in refusals}
    if scopes == set(hosts) and len(paths) == 1:
        return Proposal(hosts[0], "path", f"Only {paths.pop()} refuses requests.")
    return None


def _bursts(refusals: Sequence[Refusal]) -> list[list[Refusal]]:
    """Refusals that follow one another closely, oldest first."""
    bursts: list[list[Refusal]] = []
    for refusal in sorted(refusals, key=lambda one: one.at):
        if bursts and refusal.at - bursts[-1][-1].at <= TOGETHER_SECONDS:
            bursts[-1].append(refusal)
        else:
            bursts.append([refusal])
    return bursts
