"""Proposes rules for URLs from what was stored, and takes back those that are contradicted.

An admin decides on what is proposed. Nobody is asked before a rule is out of force again.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import islice
from typing import Any

from django.db.models import Q

from ..canonical import learning
from ..canonical.learning import Evidence, Observation, Proposal
from ..canonical.rules import Rules
from ..canonical.urls import plain
from ..errors import UrlError
from ..knowing import rules as rules_in_force
from ..knowing.models import Resource, Rule, State, Step

MOST_ROWS = 5_000
"""Of those that gave known content last, of their companions, and of the hosts of one rule."""
MOST = 100
"""Rules that are examined in one pass, and those that are proposed."""
SLICE = 500
WITHDRAWN = "withdrawn_at"
"""In the evidence of a rule that was in force."""

_FIELDS = ("url", "blob_digest", "fetched_at")
_Row = tuple[str, str, datetime | None]

_log = logging.getLogger("tarry.mirroring")


def learn(rules: Rules, seconds: float, now: datetime) -> int:
    """Examines the rules that there are, for half of the time, and proposes new ones. How many were saved.

    Approved rules come first: what is contradicted must not wait. What there is no time for has its turn later.
    """
    begun = time.monotonic()
    undecided = Q(decision=Rule.Decision.PROPOSED) & ~Q(evidence__has_key=WITHDRAWN)
    there = Rule.objects.filter(Q(decision=Rule.Decision.APPROVED) | undecided).order_by("decision", "?")[:MOST]
    examined = (_examine(rule, rules, now) for rule in there)
    proposed = (_propose(proposal, rules, now) for proposal in _proposals(rules))
    return _until(begun + seconds / 2, examined) + _until(begun + seconds, proposed)


def _until(end: float, steps: Iterator[int]) -> int:
    """The sum of the steps that are taken until then, one at the least."""
    done = 0
    for number in steps:
        done += number
        if time.monotonic() > end:
            break
    return done


def _proposals(rules: Rules) -> Iterator[Proposal]:
    """From what gave known content last, and all else that gave the same."""
    stored = Resource.objects.filter(state=State.STORED)
    recent = list(stored.filter(step=Step.CONTENT).order_by("-fetched_at").values_list(*_FIELDS)[:MOST_ROWS])
    digests = sorted({digest for _, digest, _ in recent})
    rows = [*recent, *islice(_companions(digests), MOST_ROWS)]
    existing = list(Rule.objects.all())
    found = learning.propose(_observations(rows, rules))
    yield from [proposal for proposal in found if not any(_covers(rule, proposal) for rule in existing)][:MOST]


def _companions(digests: Sequence[str]) -> Iterator[_Row]:
    for index in range(0, len(digests), SLICE):
        rows = Resource.objects.filter(state=State.STORED, blob_digest__in=digests[index : index + SLICE])
        yield from rows.order_by().values_list(*_FIELDS)[:MOST_ROWS]


def _observations(rows: Iterable[_Row], rules: Rules) -> Iterator[Observation]:
    for url, digest, _ in rows:
        try:
            yield Observation(plain(url, rules), digest)
        except UrlError:  # a rule of today refuses it
            continue


def _covers(rule: Rule, proposal: Proposal) -> bool:
    """Whether it is there already, or a rule for more hosts."""
    if (rule.kind, rule.name) != (proposal.kind, proposal.name) or rule.kind == Rule.Kind.PARAMETER:
        return (rule.kind, rule.host, rule.name) == (proposal.kind, proposal.host, proposal.name)
    before, labels, after = learning.parts(rule.host)
    other_before, others, other_after = learning.parts(proposal.host)
    return (before, after) == (other_before, other_after) and set(others) <= set(labels)


def _propose(proposal: Proposal, rules: Rules, now: datetime) -> int:
    """Saves it, unless something else that its hosts gave speaks against it."""
    rows = _rows_of(proposal.kind, proposal.host, rules)
    whole = learning.examine(proposal.kind, proposal.host, proposal.name, _observations(rows, rules))
    if whole.against:
        return 0
    evidence = max(whole, proposal.evidence, key=lambda one: one.contents)
    rule = Rule(
        kind=proposal.kind, host=proposal.host, name=proposal.name, evidence=said(evidence, now), proposed_at=now
    )
    Rule.objects.bulk_create([rule], ignore_conflicts=True)  # somebody else may have proposed it
    return 1


def _examine(rule: Rule, rules: Rules, now: datetime) -> int:
    return _withdraw(rule, rules, now) if rule.decision == Rule.Decision.APPROVED else _renew(rule, rules, now)


def _renew(rule: Rule, rules: Rules, now: datetime) -> int:
    """Keeps the evidence of what nobody has decided on: what speaks against it keeps it from being approved."""
    rows = _rows_of(rule.kind, rule.host, rules)
    found = learning.examine(rule.kind, rule.host, rule.name, _observations(rows, rules))
    if not found.against and found.contents <= rule.evidence.get("contents", 0):
        return 0
    return Rule.objects.filter(pk=rule.pk, decision=Rule.Decision.PROPOSED).update(evidence=said(found, now))


def _withdraw(rule: Rule, rules: Rules, now: datetime) -> int:
    """Takes an approved rule out of force when something that was fetched since then contradicts it."""
    rows = _rows_of(rule.kind, rule.host, rules)
    since = [row for row in rows if rule.decided_at and row[2] and row[2] > rule.decided_at]
    recent = {observation.url for observation in _observations(since, rules)}
    found = learning.examine(rule.kind, rule.host, rule.name, _observations(rows, rules), recent)
    if not found.against:
        return 0
    same = Rule.objects.filter(pk=rule.pk, decision=Rule.Decision.APPROVED, decided_at=rule.decided_at)
    evidence = {**said(found, now), WITHDRAWN: now.isoformat()}
    taken = same.update(decision=Rule.Decision.PROPOSED, decided_at=None, evidence=evidence)
    if taken:
        rules_in_force.forget()
        _log.warning("a rule for URLs was contradicted, and is out of force", extra={"rule": str(rule)})
    return taken


def _rows_of(kind: str, host: str, rules: Rules) -> list[_Row]:
    """What the hosts of a rule gave last."""
    before, labels, after = learning.parts(host)
    named = {f"{before}{label}{after}" for label in labels} if kind == Rule.Kind.LABEL else {host}
    hosts = named | {shard for shard, one in rules.shards.hosts.items() if one in named}
    rows = Resource.objects.filter(state=State.STORED, host__in=sorted(hosts)).order_by("-fetched_at")
    return list(rows.values_list(*_FIELDS)[:MOST_ROWS])


def said(evidence: Evidence, now: datetime) -> dict[str, Any]:
    """The evidence as a rule keeps it."""
    return {**asdict(evidence), "seen_at": now.isoformat()}
