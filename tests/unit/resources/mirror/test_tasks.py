"""Periodic tasks of the workers for mirrored files."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as site
from pytest_django import Settings

from resources import tasks
from resources.mirror import conf, url_rules
from resources.mirror.models import Resource, Rule
from retry import stores
from tests.conftest import RedisServers
from tests.support.url_outcomes import NOON, store

pytestmark = pytest.mark.django_db


def test_rules_are_learnt_approved_and_give_what_is_stored_its_new_key(
    redis_servers: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    url_rules.forget_url_rules()
    settings.MIRROR_RULES_SECONDS = 0
    monkeypatch.setattr(conf, "settle_seconds", lambda: 0.0)
    for place in range(5):
        for version in range(2):
            store(f"https://a.example.com/{place}?v={version}", place, at=NOON - timedelta(days=1))
    tasks.learn_url_rules()
    assert Rule.objects.update(decision=Rule.Decision.APPROVED, decided_at=NOON) == 1
    tasks.rekey_urls()
    assert Resource.objects.count() > 10


def test_without_redis_keys_wait(redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "patient_client", stores.fast_client)
    store("https://a.example.com/", 1)
    redis_servers.state.stop()
    tasks.rekey_urls()
    assert Resource.objects.count() == 1


def test_the_tasks_have_their_times() -> None:
    known = {tasks.learn_url_rules.name, tasks.rekey_urls.name}
    scheduled: dict[str, Any] = {entry["task"]: entry for entry in site.CELERY_BEAT_SCHEDULE.values()}
    assert known <= set(scheduled)
    assert {scheduled[name]["options"]["queue"] for name in known} == {"work"}
