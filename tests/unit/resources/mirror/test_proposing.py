"""Rules are proposed from what is stored, and taken back when something contradicts them."""

from datetime import timedelta

import pytest

from resources.mirroring.canonical.learning import ENOUGH
from resources.mirroring.knowing.models import Rule, Step
from resources.mirroring.knowing.rules import current_rules, forget
from resources.mirroring.ruling import approving
from resources.mirroring.ruling.proposing import learn
from tests.resources.mirroring.stored import NONE_LEARNT, NOON, store

pytestmark = pytest.mark.django_db
LATER = NOON + timedelta(days=1)


@pytest.fixture(autouse=True)
def _as_a_new_process() -> None:
    forget()


def versions(places: int = ENOUGH) -> None:
    for place in range(places):
        store(f"https://a.example.com/{place}?v=1", place, step=Step.NEW)
        store(f"https://a.example.com/{place}?v=2", place)


def proposed(seconds: float = 60) -> Rule:
    learn(NONE_LEARNT, seconds, NOON)
    return Rule.objects.get()


def test_a_rule_is_proposed_with_its_evidence() -> None:
    versions()
    rule = proposed()
    assert (rule.kind, rule.host, rule.name, rule.decision) == ("parameter", "a.example.com", "v", "proposed")
    assert (rule.evidence["contents"], rule.evidence["values"]) == (ENOUGH, ["1", "2"])
    assert len(rule.evidence["examples"]) == ENOUGH
    assert rule.evidence["against"] == []
    assert not current_rules().learnt


def test_nothing_is_proposed_without_enough() -> None:
    versions(ENOUGH - 1)
    assert learn(NONE_LEARNT, 60, NOON) == 0
    assert not Rule.objects.exists()


def test_hosts_are_proposed() -> None:
    for place in range(ENOUGH):
        for label in ("img1", "img2"):
            store(f"https://{label}.example.com/{place}", place)
    rule = proposed()
    assert (rule.kind, rule.host) == ("label", "{img1|img2}.example.com")


def test_what_contradicts_it_anywhere_at_the_host_keeps_a_rule_from_being_proposed() -> None:
    versions()
    for version in (1, 2):
        store(f"https://a.example.com/other?v={version}", version, step=Step.NEW)
    learn(NONE_LEARNT, 60, NOON)
    assert not Rule.objects.exists()


def test_a_proposal_that_is_contradicted_later_cannot_be_approved() -> None:
    versions()
    rule = proposed()
    for version in (1, 2):
        store(f"https://a.example.com/other?v={version}", version, step=Step.NEW)
    learn(NONE_LEARNT, 60, LATER)
    rule.refresh_from_db()
    assert rule.evidence["against"] == [["https://a.example.com/other?v=1", "https://a.example.com/other?v=2"]]
    assert not approving.approve(rule, LATER)
    assert not current_rules().learnt


def test_evidence_that_has_come_since_it_was_read_is_not_decided_over() -> None:
    versions()
    rule = proposed()
    Rule.objects.update(evidence={**rule.evidence, "against": [["a", "b"]]})
    assert not approving.approve(rule, LATER)


@pytest.mark.parametrize("decision", [Rule.Decision.APPROVED, Rule.Decision.REJECTED])
def test_what_was_decided_is_not_proposed_again(decision: Rule.Decision) -> None:
    versions()
    rule = proposed()
    decide = approving.approve if decision == Rule.Decision.APPROVED else approving.reject
    assert decide(rule, NOON)
    store("https://a.example.com/new?v=1", "new")
    store("https://a.example.com/new?v=2", "new")
    assert learn(NONE_LEARNT, 60, LATER) == 0
    assert Rule.objects.get().decision == decision


def test_fewer_of_the_hosts_that_were_decided_on_are_not_proposed() -> None:
    Rule.objects.create(kind="label", host="{img1|img2|img3}.example.com", decision="rejected", proposed_at=NOON)
    for place in range(ENOUGH):
        for label in ("img1", "img2"):
            store(f"https://{label}.example.com/{place}", place)
    assert learn(NONE_LEARNT, 60, NOON) == 0


def test_a_rule_in_force_that_is_contradicted_is_out_of_force_at_once() -> None:
    versions()
    rule = proposed()
    assert approving.approve(rule, NOON + timedelta(hours=1))
    assert current_rules().learnt
    store("https://a.example.com/0?v=77", "something else", at=LATER, step=Step.NEW)
    assert learn(current_rules(), 60, LATER) == 1
    rule.refresh_from_db()
    assert (rule.decision, rule.decided_at) == ("proposed", None)
    assert rule.evidence["against"] == [["https://a.example.com/0?v=1", "https://a.example.com/0?v=77"]]
    assert "withdrawn_at" in rule.evidence
    assert not current_rules().learnt
    learn(current_rules(), 60, LATER)
    assert not approving.approve(Rule.objects.get(), LATER)


def test_a_pass_has_an_end() -> None:
    versions()
    for place in range(ENOUGH):
        for label in ("img1", "img2"):
            store(f"https://{label}.example.com/{place}", f"img{place}")
    assert learn(NONE_LEARNT, -1, NOON) == 1
    assert learn(NONE_LEARNT, 60, NOON) == 1
    assert learn(NONE_LEARNT, 60, NOON) == 0
