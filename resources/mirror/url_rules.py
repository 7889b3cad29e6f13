"""The URL rules: those in force, the file of rules, proposals from evidence, and the decisions of admins.

In force are built-in rules, those of the settings, of MIRROR_RULES_FILE, and those approved by admins. A process
reads all of them again every MIRROR_RULES_SECONDS, the file after each change. If the file or the approved rules
cannot be read, the last ones stay in force; system checks report the problems of the file.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.db.models import Q, QuerySet

from .. import database
from ..caches import Snapshot
from .canonical import clearurls, rule_learner, rules
from .canonical.clearurls import RulesFile
from .canonical.rule_learner import RuleEvidence, RuleProposal, UrlObservation
from .canonical.rules import LearntRules, UrlRules, build_learnt_rules
from .canonical.urls import canonicalise_unlearnt
from .errors import UrlError
from .models import DedupeStep, Resource, Rule, UrlState
from .rules_file import LastRulesFile

_log = logging.getLogger("tarry.mirroring")


def current_rules() -> UrlRules:
    """Returns the rules in force. Reads neither the file nor the database if both were read a moment ago."""
    return _combine_rules(
        tuple(settings.MIRROR_TRACKING), tuple(settings.MIRROR_SHARDS), _FILE_SNAPSHOT.get(), _approved_rules()
    )


def forget_url_rules() -> None:
    """Makes the next call read everything again: an admin's decision applies at once in this process."""
    _APPROVED_SNAPSHOT.forget()
    _FILE_SNAPSHOT.forget()


def _read_approved_rules() -> LearntRules:
    rows = list(Rule.objects.filter(decision=Rule.Decision.APPROVED).order_by("pk"))
    labels = [row.host for row in rows if row.kind == Rule.Kind.LABEL]
    named = [(row.host, row.name) for row in rows if row.kind == Rule.Kind.PARAMETER]
    found, problems = build_learnt_rules(labels, named)
    for problem in problems:
        _log.warning("an approved rule is left out", extra={"problem": problem})
    return found


def _approved_rules() -> LearntRules:
    """Returns the rules approved by admins; none as long as the database has never answered."""
    try:
        return _APPROVED_SNAPSHOT.get()
    except DatabaseError:
        return _NO_RULES


@lru_cache(maxsize=4)
def _combine_rules(
    tracking: tuple[str, ...], hosts: tuple[str, ...], file: RulesFile, approved: LearntRules
) -> UrlRules:
    """Returns one value for the same parts. Ignores faulty settings, which system checks report."""
    return UrlRules(clearurls.parse_tracking_names(tracking)[0], rules.choose_shards(hosts)[0], file, approved)


_NO_RULES = LearntRules()
_FILE_SNAPSHOT = Snapshot("MIRROR_RULES_FILE", LastRulesFile().read, lambda: settings.MIRROR_RULES_SECONDS)
_APPROVED_SNAPSHOT = Snapshot(
    "the approved rules for URLs", _read_approved_rules, lambda: settings.MIRROR_RULES_SECONDS
)


MAX_EXAMINED_ROWS = 5_000
"""The limit of rows that gave known content last, of their companions, and of the rows of one rule's hosts."""
MAX_RULES_PER_PASS = 100
"""The limit of rules examined in one pass, and of those proposed."""
WITHDRAWN_KEY = "withdrawn_at"
"""The time of withdrawal in the evidence of a rule that was in force."""

_UNDECIDED = Q(decision=Rule.Decision.PROPOSED) & ~Q(evidence__has_key=WITHDRAWN_KEY)
_ROW_FIELDS = ("url", "blob_digest", "fetched_at")
_UrlRow = tuple[str, str, datetime | None]


def learn_rules(rules: UrlRules, seconds: float, now: datetime) -> int:
    """Examines existing rules for half of the time, and proposes new ones. Returns how many were saved.

    Approved rules come first: a contradicted one must not wait. Rules for which there is no time have their turn later.
    """
    begun = time.monotonic()
    there = Rule.objects.filter(Q(decision=Rule.Decision.APPROVED) | _UNDECIDED).order_by("decision", "?")
    renew = {Rule.Decision.APPROVED: _withdraw_rule, Rule.Decision.PROPOSED: _renew_evidence}
    examined = (renew[Rule.Decision(rule.decision)](rule, rules, now) for rule in there[:MAX_RULES_PER_PASS])
    proposed = (_save_proposal(proposal, rules, now) for proposal in _find_proposals(rules))
    return _run_until(begun + seconds / 2, examined) + _run_until(begun + seconds, proposed)


def _run_until(end: float, steps: Iterator[int]) -> int:
    """Takes steps until that moment, at least one; returns their sum."""
    done = 0
    for number in steps:
        done += number
        if time.monotonic() > end:
            break
    return done


def _find_proposals(rules: UrlRules) -> Iterator[RuleProposal]:
    """Yields proposals from the rows that gave known content last, and all others with the same content."""
    stored = Resource.objects.filter(state=UrlState.STORED)
    last = stored.filter(step=DedupeStep.CONTENT).order_by("-fetched_at")
    recent = list(last.values_list(*_ROW_FIELDS)[:MAX_EXAMINED_ROWS])
    digests = sorted({digest for _, digest, _ in recent})
    rows = [*recent, *islice(_companion_rows(digests), MAX_EXAMINED_ROWS)]
    existing = list(Rule.objects.all())
    found = rule_learner.propose_rules(_to_observations(rows, rules))
    new = (proposal for proposal in found if not any(_covers_proposal(rule, proposal) for rule in existing))
    yield from islice(new, MAX_RULES_PER_PASS)


def _companion_rows(digests: Sequence[str]) -> Iterator[_UrlRow]:
    for some in database.split_portions(digests):
        rows = Resource.objects.filter(state=UrlState.STORED, blob_digest__in=some)
        yield from rows.order_by().values_list(*_ROW_FIELDS)[:MAX_EXAMINED_ROWS]


def _to_observations(rows: Iterable[_UrlRow], rules: UrlRules) -> Iterator[UrlObservation]:
    for url, digest, _ in rows:
        try:
            yield UrlObservation(canonicalise_unlearnt(url, rules), digest)
        except UrlError:  # a rule of today refuses it
            continue


def _covers_proposal(rule: Rule, proposal: RuleProposal) -> bool:
    """True if the rule is the proposed one, or covers more hosts."""
    if (rule.kind, rule.name) != (proposal.kind, proposal.name) or rule.kind == Rule.Kind.PARAMETER:
        return (rule.kind, rule.host, rule.name) == (proposal.kind, proposal.host, proposal.name)
    before, labels, after = rule_learner.split_pattern(rule.host)
    other_before, others, other_after = rule_learner.split_pattern(proposal.host)
    return (before, after) == (other_before, other_after) and set(others) <= set(labels)


def _save_proposal(proposal: RuleProposal, rules: UrlRules, now: datetime) -> int:
    """Saves a proposal unless other content of its hosts speaks against it."""
    rule = Rule(kind=proposal.kind, host=proposal.host, name=proposal.name, proposed_at=now)
    whole = _examine_hosts(rule, rules)
    if whole.against:
        return 0
    rule.evidence = evidence_json(max(whole, proposal.evidence, key=lambda one: one.contents), now)
    Rule.objects.bulk_create([rule], ignore_conflicts=True)  # another process may have proposed it
    return 1


def _renew_evidence(rule: Rule, rules: UrlRules, now: datetime) -> int:
    """Updates the evidence of an undecided rule: evidence against it keeps it from being approved."""
    found = _examine_hosts(rule, rules)
    if not found.against and found.contents <= rule.evidence.get("contents", 0):
        return 0
    return Rule.objects.filter(pk=rule.pk, decision=Rule.Decision.PROPOSED).update(evidence=evidence_json(found, now))


def _withdraw_rule(rule: Rule, rules: UrlRules, now: datetime) -> int:
    """Takes an approved rule out of force if content fetched since the approval contradicts it."""
    found = _examine_hosts(rule, rules, rule.decided_at)
    if not found.against:
        return 0
    same = Rule.objects.filter(pk=rule.pk, decision=Rule.Decision.APPROVED, decided_at=rule.decided_at)
    evidence = {**evidence_json(found, now), WITHDRAWN_KEY: now.isoformat()}
    taken = same.update(decision=Rule.Decision.PROPOSED, decided_at=None, evidence=evidence)
    if taken:
        forget_url_rules()
        _log.warning("a rule for URLs was contradicted, and is out of force", extra={"rule": str(rule)})
    return taken


def _examine_hosts(rule: Rule, rules: UrlRules, since: datetime | None = None) -> RuleEvidence:
    """Examines a rule by the last rows of its hosts; with `since`, by pairs with a URL that was fetched later."""
    before, labels, after = rule_learner.split_pattern(rule.host)
    named = {f"{before}{label}{after}" for label in labels} if rule.kind == Rule.Kind.LABEL else {rule.host}
    hosts = named | {shard for shard, one in rules.shards.hosts.items() if one in named}
    stored = Resource.objects.filter(state=UrlState.STORED, host__in=sorted(hosts)).order_by("-fetched_at")
    rows = list(stored.values_list(*_ROW_FIELDS)[:MAX_EXAMINED_ROWS])
    late = [row for row in rows if since and row[2] and row[2] > since]
    recent = {observation.url for observation in _to_observations(late, rules)} if since else None
    return rule_learner.examine_rule(rule.kind, rule.host, rule.name, _to_observations(rows, rules), recent)


def evidence_json(evidence: RuleEvidence, now: datetime) -> dict[str, Any]:
    return {**asdict(evidence), "seen_at": now.isoformat()}


def approve_rule(rule: Rule, now: datetime) -> bool:
    """Puts a rule in force. True if it is now. A contradicted rule is not: clients would get the wrong file."""
    return not is_contradicted(rule) and _decide_rule(rule, Rule.Decision.APPROVED, now)


def reject_rule(rule: Rule, now: datetime) -> bool:
    """Takes a rule out of force, or keeps it from being proposed again. True if it is rejected now."""
    return _decide_rule(rule, Rule.Decision.REJECTED, now)


def find_undecided_rules(before: datetime) -> QuerySet[Rule]:
    """Finds the rules proposed before then that no admin has ever decided on.

    One that still holds is proposed again, with the evidence of that day. Rejected rules stay: they would be as well.
    """
    return Rule.objects.filter(_UNDECIDED, proposed_at__lt=before)


def is_contradicted(rule: Rule) -> bool:
    return bool(rule.evidence.get("against"))


def _decide_rule(rule: Rule, decision: Rule.Decision, now: datetime) -> bool:
    """Decides on the rule with the evidence that the admin saw: not if there is newer evidence."""
    same = Rule.objects.filter(pk=rule.pk, evidence=rule.evidence)
    decided = same.exclude(decision=decision).update(decision=decision, decided_at=now)
    forget_url_rules()
    return bool(decided) or Rule.objects.filter(pk=rule.pk, decision=decision).exists()
