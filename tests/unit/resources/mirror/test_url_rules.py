"""The URL rules in force in a process, and those proposed from stored files."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import Error as DatabaseError
from pytest_django import Settings

from resources.mirror import url_rules
from resources.mirror.canonical.rule_learner import MIN_CONTENTS
from resources.mirror.canonical.urls import canonicalise_url
from resources.mirror.checks import check_rules
from resources.mirror.models import DedupeStep, Rule
from resources.mirror.rules_file import LastRulesFile
from resources.mirror.url_rules import current_rules, learn_rules
from tests.support.url_outcomes import NONE_LEARNT, NOON, store

from .conftest import raising

pytestmark = pytest.mark.django_db
URL = "https://a.example.com/x?v=1&mine=2&theirs=3"


@pytest.fixture(autouse=True)
def _as_a_new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(url_rules._FILE_SNAPSHOT, "_read", LastRulesFile().read)
    url_rules.forget_url_rules()
    yield
    url_rules.forget_url_rules()


@pytest.fixture
def file(settings: Settings, tmp_path: Path) -> Path:
    path = tmp_path / "rules.json"
    settings.MIRROR_RULES_FILE = str(path)
    return path


def text() -> str:
    return canonicalise_url(URL, url_rules.current_rules()).text


def approve(**fields: str) -> Rule:
    return Rule.objects.create(decision=Rule.Decision.APPROVED, proposed_at=datetime.now(UTC), **fields)


def leave_out(path: Path, name: str) -> None:
    path.write_text(json.dumps({"providers": {"one": {"urlPattern": "a[.]example", "rules": [name]}}}))


def ids() -> list[str | None]:
    return [error.id for error in check_rules(None)]


def test_settings_the_file_and_admins_all_have_a_say(settings: Settings, file: Path) -> None:
    settings.MIRROR_TRACKING = ["mine"]
    leave_out(file, "theirs")
    approve(kind="parameter", host="a.example.com", name="v")
    assert text() == "https://a.example.com/x?v="
    assert url_rules.current_rules() is url_rules.current_rules()


def test_only_approved_rules_hold(settings: Settings) -> None:
    settings.MIRROR_RULES_SECONDS = 0
    rule = approve(kind="parameter", host="a.example.com", name="v")
    for decision in (Rule.Decision.PROPOSED, Rule.Decision.REJECTED):
        rule.decision = decision
        rule.save()
        assert text() == URL


def test_a_process_learns_of_an_approval_after_some_seconds(settings: Settings) -> None:
    settings.MIRROR_RULES_SECONDS = 3600
    assert text() == URL
    approve(kind="parameter", host="a.example.com", name="v")
    assert text() == URL
    settings.MIRROR_RULES_SECONDS = 0
    assert "v=&" in text()


@pytest.mark.parametrize(
    ("known_before", "expected"),
    [
        pytest.param(True, "https://a.example.com/x?v=&theirs=3", id="nothing changes"),
        pytest.param(False, "https://a.example.com/x?v=1&theirs=3", id="from the start nothing is concluded"),
    ],
)
def test_without_a_database_what_was_known_before_holds(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, file: Path, *, known_before: bool, expected: str
) -> None:
    settings.MIRROR_RULES_SECONDS = 0
    leave_out(file, "mine")
    approve(kind="parameter", host="a.example.com", name="v")
    if known_before:
        text()
    monkeypatch.setattr(Rule.objects, "filter", raising(DatabaseError("away")))
    assert text() == expected


def test_a_rule_that_means_nothing_is_left_out() -> None:
    approve(kind="label", host="everything")
    approve(kind="parameter", host="a.example.com", name="v")
    assert "v=&" in text()


def test_a_file_that_changes_is_read_again_and_one_that_breaks_is_not_used(settings: Settings, file: Path) -> None:
    settings.MIRROR_RULES_SECONDS = 0
    leave_out(file, "theirs")
    assert text() == "https://a.example.com/x?v=1&mine=2"
    leave_out(file, "mine")
    os.utime(file, ns=(1, 1))
    assert text() == "https://a.example.com/x?v=1&theirs=3"
    file.write_text("<html>")
    assert text() == "https://a.example.com/x?v=1&theirs=3"
    file.unlink()
    assert text() == "https://a.example.com/x?v=1&theirs=3"


def test_what_cannot_be_read_is_an_error_each(settings: Settings, file: Path) -> None:
    leave_out(file, "theirs")
    settings.MIRROR_TRACKING, settings.MIRROR_SHARDS = ["mine", "our_*"], ["i{1-3}.example.com"]
    assert ids() == []
    settings.MIRROR_TRACKING, settings.MIRROR_SHARDS = ["*"], ["*.com"]
    leave_out(file, "(?!x)")
    assert ids() == ["mirroring.E001", "mirroring.E002", "mirroring.E004"]
    assert "one: rules has '(?!x)'" in check_rules(None)[2].msg


@pytest.mark.parametrize("content", ["", "{}", "\0", '{"providers": 1}'])
def test_a_file_that_is_none_is_an_error(file: Path, content: str) -> None:
    file.write_text(content)
    assert ids() == ["mirroring.E003"]
    assert text() == URL


def test_a_file_that_is_not_there_or_is_no_file_is_an_error_and_is_not_waited_for(file: Path) -> None:
    assert ids() == ["mirroring.E003"]
    os.mkfifo(file)
    assert ids() == ["mirroring.E003"]
    assert text() == URL


LATER = NOON + timedelta(days=1)


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
    assert ["https://a.example.com/0?v=1", "https://a.example.com/0?v=2"] in rule.evidence["examples"]
    assert rule.evidence["against"] == []
    assert not current_rules().learnt


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
