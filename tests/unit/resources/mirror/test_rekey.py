"""Stored files stay known when rules come and go, and no URL gets another one's content."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pytest_django import Settings

from resources import tasks
from resources.mirror import conf, lookup, rekey, url_rules
from resources.mirror.canonical import clearurls, urls
from resources.mirror.canonical.rules import UrlRules
from resources.mirror.canonical.urls import candidate_digests, canonicalise_url, find_surest
from resources.mirror.models import Batch, BatchItem, DedupeStep, Resource, Rule, UrlState
from resources.mirror.rekey import PROGRESS_KEY, RekeyResult, rekey_rows
from retry import stores
from tests.conftest import RedisServers
from tests.support.url_outcomes import NONE_LEARNT, NOON, blob_of, learnt_parameter, store

pytestmark = pytest.mark.django_db
LEARNT = learnt_parameter("a.example.com", "v")
TRACKED = replace(NONE_LEARNT, tracking=clearurls.parse_tracking_names(["v"])[0])
SETTLE = 10.0


def url(version: int, path: str = "x") -> str:
    return f"https://a.example.com/{path}?v={version}"


def known(of: str, rules: UrlRules) -> str | None:
    """The content that a look-up finds, as look-ups are to be done."""
    digests = candidate_digests(of, rules)
    rows: dict[str, Resource] = Resource.objects.in_bulk(digests)
    found = find_surest(digests, rows, lambda row: row.state == UrlState.STORED)
    return found.blob_digest if found and found.state == UrlState.STORED else None


def settled(rules: UrlRules, now: datetime = NOON, seconds: float = 60) -> RekeyResult:
    """A pass that has waited for all processes to go by the rules."""
    rekey_rows(rules, SETTLE, seconds, now)
    return rekey_rows(rules, SETTLE, seconds, now + timedelta(seconds=SETTLE))


def keys() -> Sequence[str]:
    return sorted(Resource.objects.values_list("pk", flat=True))


def test_what_was_stored_is_known_from_the_approval_on() -> None:
    store(url(1), "one")
    store(url(2), "one")
    assert [known(url(version), LEARNT) for version in (1, 2, 3)] == [blob_of("one"), blob_of("one"), None]
    settled(LEARNT)
    assert [known(url(version), LEARNT) for version in (1, 2, 3)] == [blob_of("one")] * 3


def test_what_a_url_gave_before_a_false_rule_stays_its_own() -> None:
    store(url(1), "one")
    store(url(2), "two")
    settled(LEARNT)
    assert [known(url(version), LEARNT) for version in (1, 2)] == [blob_of("one"), blob_of("two")]


def test_a_rule_that_is_taken_back_leaves_nothing_that_no_url_gave() -> None:
    store(url(1), "one")
    before = keys()
    settled(LEARNT)
    store(url(7, "y"), "y", rules=LEARNT)
    settled(NONE_LEARNT)
    assert [known(url(1), NONE_LEARNT), known(url(7, "y"), NONE_LEARNT)] == [blob_of("one"), blob_of("y")]
    assert [known(url(2), NONE_LEARNT), known("https://a.example.com/x?v=", NONE_LEARNT)] == [None, None]
    assert set(before) < set(keys())
    assert len(keys()) == 2


def test_rules_of_settings_move_what_is_stored_and_make_several_rows_one() -> None:
    rows = [store(url(version), "one") for version in range(5)]
    assert known(url(1), TRACKED) is None
    done = settled(TRACKED)
    assert known(url(9), TRACKED) == blob_of("one")
    assert (sorted(done.gone), done.stored) == (
        sorted(row.pk for row in rows),
        [canonicalise_url(url(1), TRACKED).digest],
    )
    assert Resource.objects.get().step == DedupeStep.KNOWN


def test_what_failed_is_not_taken_along() -> None:
    store(url(1), state=UrlState.FAILED)
    settled(LEARNT)
    assert keys() == [canonicalise_url(url(1), NONE_LEARNT).digest]
    settled(TRACKED, NOON + timedelta(hours=1))
    assert keys() == []


@pytest.mark.parametrize("rules", [TRACKED, LEARNT], ids=["settings", "learnt"])
@pytest.mark.parametrize("refused", [1, 2])
@pytest.mark.parametrize("at_once", [1, 500])
def test_what_was_taken_down_counts_for_all_that_become_one_with_it(
    rules: UrlRules, refused: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rekey, "SLICE_ROWS", at_once)
    _taken_down(url(refused))
    store(url(3 - refused), "stored")
    assert settled(rules).left == 0
    assert Resource.objects.get(pk=canonicalise_url(url(3), rules).digest).failure == "taken down"
    assert [known(url(refused), rules), known(url(3), rules)] == [None, None]


@pytest.mark.parametrize(("down", "stored"), [("https://a.example.com/x", url(1)), (url(1), "https://a.example.com/x")])
def test_what_was_taken_down_gives_way_to_nothing_and_goes_over_what_is_stored(down: str, stored: str) -> None:
    _taken_down(down)
    store(stored, "one")
    assert settled(TRACKED).left == 0
    [row] = Resource.objects.all()
    assert (row.pk, row.url, row.failure) == (canonicalise_url(url(1), TRACKED).digest, down, "taken down")


def test_what_was_taken_down_is_not_dropped_while_its_new_key_is_wanted() -> None:
    store("https://a.example.com/x", state=UrlState.WANTED)
    row = _taken_down(url(1))
    assert settled(TRACKED).left == 1
    assert Resource.objects.get(pk=row.pk).failure == "taken down"
    Resource.objects.filter(state=UrlState.WANTED).update(state=UrlState.STORED, blob_digest=blob_of("one"))
    assert rekey_rows(TRACKED, SETTLE, 60, NOON + timedelta(minutes=11)).left == 0
    assert Resource.objects.get().failure == "taken down"


def _taken_down(of: str) -> Resource:
    row = store(of, "taken down")
    Resource.objects.filter(pk=row.pk).update(state=UrlState.FAILED, failure="taken down", step=DedupeStep.FAILED)
    return row


def test_what_is_wanted_is_left_and_moved_once_it_is_stored() -> None:
    row = store(url(1), state=UrlState.WANTED)
    assert settled(TRACKED).left == 1
    assert keys() == [row.pk]
    Resource.objects.update(state=UrlState.STORED, blob_digest=blob_of("one"))
    assert rekey_rows(TRACKED, SETTLE, 60, NOON + timedelta(minutes=5)).gone == []
    assert rekey_rows(TRACKED, SETTLE, 60, NOON + timedelta(minutes=11)).gone == [row.pk]
    assert known(url(2), TRACKED) == blob_of("one")


def test_a_row_that_a_list_is_about_to_be_settled_by_is_left() -> None:
    row = store(url(1), "one")
    batch = Batch.objects.create(sender="a", key="b", created_at=NOON)
    item = BatchItem.objects.create(batch=batch, position=0, url=row.url, url_digest=row.pk)
    assert (settled(TRACKED).left, Resource.objects.count()) == (1, 2)
    BatchItem.objects.filter(pk=item.pk).update(step=DedupeStep.NEW)
    assert rekey_rows(TRACKED, SETTLE, 60, NOON + timedelta(minutes=11)).gone == [row.pk]


def test_a_wanted_url_is_not_stored_over() -> None:
    store("https://a.example.com/x", state=UrlState.WANTED)
    store(url(1), "one")
    assert settled(TRACKED).left == 1
    assert Resource.objects.get(pk=canonicalise_url("https://a.example.com/x", TRACKED).digest).state == UrlState.WANTED


def test_look_ups_do_not_go_on_with_what_they_remember() -> None:
    store(url(1), "one")
    store("https://a.example.com/x", state=UrlState.FAILED)
    before, after = (canonicalise_url(url(1), rules).digest for rules in (NONE_LEARNT, TRACKED))
    assert {digest: one.state for digest, one in lookup.look_up_urls([before, after]).items()} == {
        before: UrlState.STORED,
        after: UrlState.FAILED,
    }
    settled(TRACKED)
    assert {digest: one.blob_digest for digest, one in lookup.look_up_urls([before, after]).items()} == {
        after: blob_of("one")
    }


def test_a_walk_that_is_stopped_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rekey, "SLICE_ROWS", 20)
    monkeypatch.setattr(urls, "WATCHED_ONE_IN", 2**32)  # the rules spare none of these
    for number in range(30):
        store(f"https://a.example.com/{number}?v=1", number)
    assert not settled(LEARNT, seconds=0).is_complete
    assert Resource.objects.count() == 50
    later = NOON + timedelta(minutes=1)
    while not (done := rekey_rows(LEARNT, SETTLE, 0, later)).is_complete:
        pass
    assert done.left == 0
    assert all(known(f"https://a.example.com/{number}?v=2", LEARNT) for number in range(30))


def test_nothing_is_done_twice_and_nothing_before_all_processes_know() -> None:
    store(url(1), "one")
    assert rekey_rows(LEARNT, SETTLE, 60, NOON).stored == []
    assert rekey_rows(LEARNT, SETTLE, 60, NOON + timedelta(seconds=SETTLE / 2)).stored == []
    assert len(rekey_rows(LEARNT, SETTLE, 60, NOON + timedelta(seconds=SETTLE)).stored) == 1
    Resource.objects.all().delete()
    store(url(1), "one")
    assert rekey_rows(LEARNT, SETTLE, 60, NOON + timedelta(hours=1)).stored == []


def test_where_it_was_may_be_lost(redis_servers: RedisServers) -> None:
    store(url(1), "one")
    settled(LEARNT)
    redis_servers.state.client.delete(PROGRESS_KEY)
    assert settled(LEARNT).gone == []
    assert Resource.objects.count() == 2


def test_a_url_that_the_rules_refuse_today_is_left_alone() -> None:
    row = store(url(1), "one")
    Resource.objects.filter(pk=row.pk).update(url="ftp://a.example.com/x")
    assert settled(TRACKED).gone == []
    assert keys() == [row.pk]


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
