"""What admins decide on rules for URLs. In force at once in this process, after MIRROR_RULES_SECONDS in all others."""

from datetime import datetime

from ..knowing import rules
from ..knowing.models import Rule


def approve(rule: Rule, now: datetime) -> bool:
    """Puts a rule in force. Not one that is contradicted: somebody would get the wrong file. Whether it is now."""
    return not is_contradicted(rule) and _decide(rule, Rule.Decision.APPROVED, now)


def reject(rule: Rule, now: datetime) -> bool:
    """Takes a rule out of force, or keeps it from being proposed again."""
    return _decide(rule, Rule.Decision.REJECTED, now)


def is_contradicted(rule: Rule) -> bool:
    return bool(rule.evidence.get("against"))


def _decide(rule: Rule, decision: Rule.Decision, now: datetime) -> bool:
    """Only on what was looked at: evidence that has come since then has not been."""
    same = Rule.objects.filter(pk=rule.pk, evidence=rule.evidence)
    decided = same.exclude(decision=decision).update(decision=decision, decided_at=now)
    rules.forget()
    return bool(decided) or Rule.objects.filter(pk=rule.pk, decision=decision).exists()
