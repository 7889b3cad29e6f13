"""Old rows: of each kind those go that nobody needs, and all with an admin's word, or that others refer to, stay."""

from datetime import datetime, timedelta
from io import StringIO
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.sessions.models import Session
from django.core.management import call_command

from resources import old_rows, tasks
from resources.fetch.models import FetchDomain, FetchTiming
from resources.mirror import hosts, lookup, url_rules
from resources.mirror.models import Batch, BatchItem, MirroredHost, Resource, Rule, Tally, UrlState, Validator
from resources.mirror.storage import takedown
from retry import lanes
from tests.support.mirror_rows import NOW, digest_of, fail, report, resource, stored_resource, url

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

DAY = timedelta(days=1)
LONG_AGO = NOW - 500 * DAY
KINDS = {kind.name: kind for kind in old_rows.KINDS}


def prune(now: datetime = NOW) -> dict[str, int]:
    """The rows that went, by kind."""
    gone: dict[str, int] = {}
    for kind, number in old_rows.prune_rows(now):
        gone[kind.name] = gone.get(kind.name, 0) + number
    return gone


def domain(scope: str, **fields: Any) -> None:
    """A domain that is known since long ago."""
    FetchDomain.objects.create(scope=scope, **fields)
    FetchDomain.objects.filter(scope=scope).update(updated_at=LONG_AGO)


def timing(scope: str) -> None:
    FetchTiming.objects.create(
        started_at=NOW, url_digest="a", host="a", scope=scope, kind="file", lane="fast", seconds=1, wire_bytes=1
    )


def test_a_domain_goes_that_was_not_fetched_from_and_has_no_limit_of_an_admin(settings: Any) -> None:
    settings.FETCH_EGRESS = ["a=127.0.0.2", "b=127.0.0.3"]
    domain("unused.example")
    limits: tuple[dict[str, Any], ...] = (
        {"paused": True},
        {"delay_seconds": 1},
        {"in_flight": 1},
        {"bytes_per_second": 0},
        {"counted_by": "host"},
    )
    for number, fields in enumerate([*limits, {"note": "mine"}]):
        domain(f"{number}.example", **fields)
    domain("used.example via b")
    domain("used.example")
    timing("used.example via b")
    FetchDomain.objects.create(scope="new.example")
    assert prune() == {"domains": 1}
    assert not FetchDomain.objects.filter(scope="unused.example").exists()


def test_a_domain_that_is_fetched_from_meanwhile_stays() -> None:
    domain("busy.example")
    kind = KINDS["domains"]
    rows = kind.find_old(NOW)
    keys = [row.pk for row in rows]
    timing("busy.example")
    assert kind.remove(rows, keys) == 0
    assert FetchDomain.objects.exists()


def test_a_host_goes_that_nothing_rests_on_and_no_admin_has_judged() -> None:
    said: dict[str, dict[str, Any]] = {
        "gone": {}, "blocked": {"blocked": True}, "noted": {"note": "mine"}, "new": {"learnt_at": NOW}
    }  # fmt: skip
    for name, fields in said.items():
        MirroredHost.objects.create(host=name, **{"learnt_at": LONG_AGO, "lies": 1, **fields})
    for name in ("validating", "vouching"):
        MirroredHost.objects.create(host=name, learnt_at=LONG_AGO)
    Validator.objects.create(key="k", host="validating", blob_digest="b", seen_at=LONG_AGO)
    resource("a", vouched_by="vouching", state=UrlState.STORED)
    assert prune() == {"mirrored hosts": 1}
    assert not MirroredHost.objects.filter(host="gone").exists()


def test_evidence_keeps_a_host() -> None:
    MirroredHost.objects.create(host="a", learnt_at=LONG_AGO)
    hosts.record_evidence({"a": hosts.HostEvidence(confirmed=1)}, NOW)
    assert prune() == {}


def test_a_proposed_rule_goes_and_what_an_admin_has_decided_is_not_proposed_again() -> None:
    withdrawn = {url_rules.WITHDRAWN_KEY: LONG_AGO.isoformat()}
    said: list[dict[str, Any]] = [{}, {"decision": "rejected"}, {"decision": "approved"}, {"evidence": withdrawn}]
    for number, fields in enumerate(said):
        Rule.objects.create(kind="parameter", host="a", name=f"p{number}", proposed_at=LONG_AGO, **fields)
    assert prune() == {"proposed rules for URLs": 1}
    assert set(Rule.objects.values_list("name", flat=True)) == {"p1", "p2", "p3"}


def test_a_failed_url_goes_and_is_as_if_never_reported() -> None:
    for name in ("old", "new", "blocked", "taken down"):
        resource(name)
        fail(name)
    stored_resource("stored")
    Resource.objects.exclude(pk=digest_of(url("new"))).update(fetched_at=LONG_AGO)
    for name in (hosts.BLOCKED_FAILURE, takedown.TAKEN_DOWN_FAILURE):
        Resource.objects.filter(pk=digest_of(url(name))).update(failure=name)
    assert lookup.look_up_urls([digest_of(url("old"))])
    assert prune() == {"failed URLs": 1}
    assert not lookup.look_up_urls([digest_of(url("old"))])
    assert report("old").decisions[0].status == "accepted"
    assert Resource.objects.count() == 5


def test_a_failed_url_stays_that_a_list_waits_for() -> None:
    report("a")
    fail("a")
    Resource.objects.update(fetched_at=LONG_AGO)
    assert prune() == {}


def test_counts_finished_lists_and_ended_sessions_go() -> None:
    for hour in (LONG_AGO, NOW):
        Tally.objects.create(hour=hour, step="new")
        Session.objects.create(session_key=f"{hour:%Y}", session_data="", expire_date=hour + DAY)
    stored_resource("a")
    finished, unfinished = report("a").batch, report("b").batch
    assert prune(NOW + DAY / 2) == {"counts of ingest efficiency": 1, "sessions of the admin": 1}
    Batch.objects.filter(pk=finished.pk).update(call_at=NOW + 32 * DAY)
    assert "reported lists" not in prune(NOW + 31 * DAY)  # its webhook is still to be called
    Batch.objects.filter(pk=finished.pk).update(call_at=None)
    assert prune(NOW + 31 * DAY) == {"reported lists": 1}
    assert finished.finished_at
    assert list(BatchItem.objects.values_list("batch", flat=True)) == [unfinished.pk]


def test_a_setting_beyond_all_time_keeps_rows_for_ever(settings: Any) -> None:
    settings.MIRROR_TALLY_DAYS = 10**17
    Tally.objects.create(hour=LONG_AGO, step="new")
    assert prune() == {}


def test_a_task_whose_time_is_up_has_another_one_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    Session.objects.create(session_key="a", expire_date=LONG_AGO)
    monkeypatch.setattr(tasks, "PRUNE_ROWS_SECONDS", 0)
    send = Mock()
    monkeypatch.setattr(lanes, "send_task", send)
    tasks.prune()
    send.assert_called_once_with("resources.prune", (), "work")
    tasks.prune()
    send.assert_called_once()
    assert not Session.objects.exists()


def test_the_command_tells_what_went_by_kind_and_with_dry_run_removes_nothing() -> None:
    Tally.objects.create(hour=LONG_AGO, step="new")
    Session.objects.bulk_create(Session(session_key=f"{number}", expire_date=LONG_AGO) for number in range(1001))

    def told(*options: str) -> list[str]:
        out = StringIO()
        call_command("prune", *options, stdout=out)
        return [" ".join(line.split()) for line in out.getvalue().splitlines()]

    kinds = ["counts of ingest efficiency 1", "sessions of the admin 1,001"]
    assert told("--dry-run") == [*kinds, "1,002 old rows would go."]
    assert told() == [*kinds, "1,002 old rows are gone."]
    assert told() == ["0 old rows are gone."]
