"""Rules are proposed from stored files, and withdrawn after a contradiction."""

from datetime import timedelta

import pytest

from resources.mirror import url_rules
from resources.mirror.canonical.rule_learner import MIN_CONTENTS
from resources.mirror.models import DedupeStep, Rule
from resources.mirror.url_rules import current_rules, forget_url_rules, learn_rules
from tests.support.url_outcomes import NONE_LEARNT, NOON, store

pytestmark = pytest.mark.django_db
LATER = NOON + timedelta(days=1)


@pytest.fixture(autouse=True)
def _as_a_new_process() -> None:
    forget_url_rules()


def versions(places: int = MIN_CONTENTS) -> None:
    for place in range(places):
        store(f"https://a.example.com/{place}?v=1", place, step=DedupeStep.NEW)
        store(f"https://a.example.com/{place}?v=2", place)


def proposed(seconds: float = 60) -> Rule:
    learn_rules(NONE_LEARNT, seconds, NOON)
    return Rule.objects.get()


def test_a_rule_is_proposed_with_its_evidence() -> None:
    versions()
    rule = proposed()
    assert (rule.kind, rule.host, rule.name, rule.decision) == ("parameter", "a.example.com", "v", "proposed")
    assert (rule.evidence["contents"], rule.evidence["values"]) == (MIN_CONTENTS, ["1", "2"])
    assert len(rule.evidence["examples"]) == MIN_CONTENTS
    assert rule.evidence["against"] == []
    assert not current_rules().learnt


def test_nothing_is_proposed_without_enough() -> None:
    versions(MIN_CONTENTS - 1)
    assert learn_rules(NONE_LEARNT, 60, NOON) == 0
    assert not Rule.objects.exists()


def test_hosts_are_proposed() -> None:
    for place in range(MIN_CONTENTS):
        for label in ("img1", "img2"):
            store(f"https://{label}.example.com/{place}", place)
    rule = proposed()
    assert (rule.kind, rule.host) == ("label", "{img1|img2}.example.com")


def test_what_contradicts_it_anywhere_at_the_host_keeps_a_rule_from_being_proposed() -> None:
    versions()
    for version in (1, 2):
        store(f"https://a.example.com/other?v={version}", version, step=DedupeStep.NEW)
    learn_rules(NONE_LEARNT, 60, NOON)
    assert not Rule.objects.exists()


def test_a_proposal_that_is_contradicted_later_cannot_be_approved() -> None:
    versions()
    rule = proposed()
    for version in (1, 2):
        store(f"https://a.example.com/other?v={version}", version, step=DedupeStep.NEW)
    learn_rules(NONE_LEARNT, 60, LATER)
    rule.refresh_from_db()
    assert rule.evidence["against"] == [["https://a.example.com/other?v=1", "https://a.example.com/other?v=2"]]
    assert not url_rules.approve_rule(rule, LATER)
    assert not current_rules().learnt


def test_evidence_that_has_come_since_it_was_read_is_not_decided_over() -> None:
    versions()
    rule = proposed()
    Rule.objects.update(evidence={**rule.evidence, "against": [["a", "b"]]})
    assert not url_rules.approve_rule(rule, LATER)


@pytest.mark.parametrize("decision", [Rule.Decision.APPROVED, Rule.Decision.REJECTED])
def test_what_was_decided_is_not_proposed_again(decision: Rule.Decision) -> None:
    versions()
    rule = proposed()
    decide = url_rules.approve_rule if decision == Rule.Decision.APPROVED else url_rules.reject_rule
    assert decide(rule, NOON)
    store("https://a.example.com/new?v=1", "new")
    store("https://a.example.com/new?v=2", "new")
    assert learn_rules(NONE_LEARNT, 60, LATER) == 0
    assert Rule.objects.get().decision == decision


def test_fewer_of_the_hosts_that_were_decided_on_are_not_proposed() -> None:
    Rule.objects.create(kind="label", host="{img1|img2|img3}.example.com", decision="rejected", proposed_at=NOON)
    for place in range(MIN_CONTENTS):
        for label in ("img1", "img2"):
            store(f"https://{label}.example.com/{place}", place)
    assert learn_rules(NONE_LEARNT, 60, NOON) == 0


def test_a_rule_in_force_that_is_contradicted_is_out_of_force_at_once() -> None:
    versions()
    rule = proposed()
    assert url_rules.approve_rule(rule, NOON + timedelta(hours=1))
    assert current_rules().learnt
    store("https://a.example.com/0?v=77", "something else", at=LATER, step=DedupeStep.NEW)
    assert learn_rules(current_rules(), 60, LATER) == 1
    rule.refresh_from_db()
    assert (rule.decision, rule.decided_at) == ("proposed", None)
    assert rule.evidence["against"] == [["https://a.example.com/0?v=1", "https://a.example.com/0?v=77"]]
    assert "withdrawn_at" in rule.evidence
    assert not current_rules().learnt
    learn_rules(current_rules(), 60, LATER)
    assert not url_rules.approve_rule(Rule.objects.get(), LATER)


def test_a_pass_has_an_end() -> None:
    versions()
    for place in range(MIN_CONTENTS):
        for label in ("img1", "img2"):
            store(f"https://{label}.example.com/{place}", f"img{place}")
    assert learn_rules(NONE_LEARNT, -1, NOON) == 1
    assert learn_rules(NONE_LEARNT, 60, NOON) == 1
    assert learn_rules(NONE_LEARNT, 60, NOON) == 0
