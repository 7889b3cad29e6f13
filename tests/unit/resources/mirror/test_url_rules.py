"""The rules in force in a process, and the time of changes."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.db import Error as DatabaseError
from pytest_django import Settings

from resources.mirror import url_rules
from resources.mirror.canonical.urls import canonicalise_url
from resources.mirror.checks import check_rules
from resources.mirror.models import Rule

pytestmark = pytest.mark.django_db
URL = "https://a.example.com/x?v=1&mine=2&theirs=3"


@pytest.fixture(autouse=True)
def _as_a_new_process() -> Iterator[None]:
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


def test_a_database_that_is_away_changes_nothing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MIRROR_RULES_SECONDS = 0
    approve(kind="parameter", host="a.example.com", name="v")
    before = text()
    monkeypatch.setattr(Rule.objects, "filter", _raise)
    assert text() == before != URL


def test_without_a_database_from_the_start_nothing_is_concluded(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    leave_out(file, "theirs")
    approve(kind="parameter", host="a.example.com", name="v")
    monkeypatch.setattr(Rule.objects, "filter", _raise)
    assert text() == "https://a.example.com/x?v=1&mine=2"


def _raise(**_: object) -> None:
    raise DatabaseError("away")


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


def test_the_same_rules_are_one_value() -> None:
    assert url_rules.current_rules() is url_rules.current_rules()


def test_settings_that_can_be_read_are_no_error(settings: Settings, file: Path) -> None:
    leave_out(file, "theirs")
    settings.MIRROR_TRACKING, settings.MIRROR_SHARDS = ["mine", "our_*"], ["i{1-3}.example.com"]
    assert ids() == []


def test_what_cannot_be_read_is_an_error_each(settings: Settings, file: Path) -> None:
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
