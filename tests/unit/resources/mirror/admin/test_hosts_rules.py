"""The admin of rules for URLs."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from resources.mirror import url_rules
from resources.mirror.models import Rule

pytestmark = pytest.mark.django_db

LIST = "/admin/resources/rule/"
PAIR = ["https://a.example.com/x?v=1", "https://a.example.com/x?v=<script>"]


@pytest.fixture
def rule() -> Rule:
    url_rules.forget_url_rules()
    evidence = {"contents": 7, "values": ["1", ""], "examples": [PAIR], "against": [], "seen_at": "2026-11-21T12:00:00"}
    now = datetime.now(UTC)
    return Rule.objects.create(kind="parameter", host="a.example.com", name="v", evidence=evidence, proposed_at=now)


def act(client: Client, action: str, *chosen: Rule) -> str:
    data: Any = {"action": action, "_selected_action": [one.pk for one in chosen]}
    return client.post(LIST, data, follow=True).content.decode()


def test_the_evidence_can_be_read(rule: Rule, admin_client: Client) -> None:
    text = admin_client.get(f"{LIST}{rule.pk}/change/").content.decode()
    assert "URLs that differ only in the value of v are the same" in text
    assert "Contents with several such URLs each: 7, as of 2026-11-21 12:00 UTC" in text
    assert "1, (empty)" in text
    assert "https://a.example.com/x?v=1<br>https://a.example.com/x?v=&lt;script&gt;" in text
    assert "v=<script>" not in text
    assert "a.example.com v" in admin_client.get(LIST).content.decode()


def test_an_approved_rule_is_in_force_and_a_rejected_one_is_not(rule: Rule, admin_client: Client) -> None:
    assert "Approved: a.example.com v." in act(admin_client, "approve", rule)
    assert url_rules.current_rules().learnt.parameters == {"a.example.com": {"v"}}
    assert "Rejected: a.example.com v." in act(admin_client, "reject", rule)
    assert not url_rules.current_rules().learnt
    rule.refresh_from_db()
    assert (rule.decision, rule.decided_at is not None) == ("rejected", True)
    history = admin_client.get(f"{LIST}{rule.pk}/history/").content.decode()
    assert "Approved." in history
    assert "Rejected." in history


def test_a_contradicted_rule_is_not_approved(rule: Rule, admin_client: Client) -> None:
    rule.evidence = {**rule.evidence, "against": [PAIR], "withdrawn_at": "2026-11-21T13:00:00"}
    rule.save()
    assert "Not changed, because contradicted: a.example.com v." in act(admin_client, "approve", rule)
    assert not url_rules.current_rules().learnt
    assert "In force until 2026-11-21 13:00 UTC" in admin_client.get(f"{LIST}{rule.pk}/change/").content.decode()


def test_a_rule_of_hosts_is_told_in_words(admin_client: Client) -> None:
    hosts = "{img1|img2}.example.com"
    rule = Rule.objects.create(kind="label", host=hosts, proposed_at=datetime.now(UTC))
    text = admin_client.get(f"{LIST}{rule.pk}/change/").content.decode()
    assert f"URLs that differ only in these hosts are the same: {hosts}" in text


def test_rules_are_proposed_and_not_typed(admin_client: Client) -> None:
    assert admin_client.get(f"{LIST}add/").status_code == 403


def test_who_may_only_look_decides_nothing(rule: Rule, client: Client) -> None:
    user = User.objects.create_user("reader", password="x", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_rule"))
    client.force_login(user)
    assert client.get(LIST).status_code == 200
    act(client, "approve", rule)
    rule.refresh_from_db()
    assert rule.decision == "proposed"
