"""Content in a real `cache`: freshness by the server's clock, the fence, shared bodies."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from retry import contents, stores
from retry.contents import Content, Prepared, StoredNotice
from retry.scripts import ScriptCall
from tests.conftest import RedisServers

pytestmark = pytest.mark.usefixtures("servers")
STORED = datetime(2026, 11, 21, 12, tzinfo=UTC)


def prepared(body: bytes = b"tile", *, fresh: float = 60, stale: float = 600, version: int = 0) -> Prepared:
    return Prepared(body, "image/png", fresh, stale, version=version)


def write(content: Prepared, token: int, moment: datetime = STORED) -> bool:
    return stores.execute_call(contents.store_call("k", content, token, moment, 0.25)) == 1


def read(*, with_body: bool = True) -> Content:
    content = stores.run_steps(contents.read_content("k", with_body=with_body))
    assert content is not None
    return content


def test_what_is_written_is_read() -> None:
    write(prepared(version=3), 1)
    content = read()
    assert (content.body, content.content_type, content.version) == (b"tile", "image/png", 3)
    assert (content.stored_at, content.cost_seconds, content.given_seconds) == (STORED, 0.25, 60)
    assert content.etag.startswith('"')
    assert 59 < content.fresh_seconds <= 60
    assert [content.is_fresh(version) for version in (2, 3, 4)] == [True, True, False]
    without_body = read(with_body=False)
    assert (without_body.body, without_body.is_fresh(0)) == (b"", True)


def test_content_gets_stale_and_then_goes(servers: RedisServers) -> None:
    write(prepared(fresh=0.05, stale=60), 1)
    time.sleep(0.06)
    assert not read().is_fresh(0)
    servers.cache.client.pexpire("retry:content:k", 1)
    time.sleep(0.01)
    assert stores.run_steps(contents.read_content("k")) is None


def test_content_stays_servable_for_ten_seconds_whatever_its_freshness(servers: RedisServers) -> None:
    write(prepared(fresh=0, stale=0), 1)
    assert 9000 < servers.cache.client.pttl("retry:content:k") <= 10_000
    assert not read().is_fresh(0)


def test_a_paused_worker_cannot_overwrite_newer_content() -> None:
    assert write(prepared(b"new"), 2)
    assert not write(prepared(b"old"), 1)
    assert read().body == b"new"
    assert write(prepared(b"twice"), 2)


def test_the_same_bytes_keep_their_time_of_change_until_others_take_their_place() -> None:
    later, latest = STORED + timedelta(minutes=1), STORED + timedelta(minutes=2, microseconds=5)
    for token, body, moment, changed in [
        (1, b"a", STORED, STORED),
        (2, b"a", later, STORED),
        (3, b"b", latest, latest),
    ]:
        assert write(prepared(body), token, moment)
        assert (read().stored_at, read().last_modified) == (moment, changed)
    assert not write(prepared(b"a"), 1, later)
    assert read().last_modified == latest


def test_content_of_a_former_version_changed_when_it_was_stored(servers: RedisServers) -> None:
    write(prepared(), 1)
    servers.cache.client.hdel("retry:content:k", "digest", "changed")
    assert read().last_modified == STORED


def test_shared_bodies_are_stored_by_their_digest_only(servers: RedisServers) -> None:
    contents.share_body(b"the empty tile" * 100)
    write(prepared(b"the empty tile" * 100), 1)
    assert servers.cache.client.hget("retry:content:k", "body") == b""
    assert read().body == b"the empty tile" * 100


def test_early_refresh_gets_likelier_towards_the_expiry_and_with_the_cost() -> None:
    def content(left: float, cost: float) -> Content:
        return Content(b"", "", "", STORED, cost, None, 0, left)

    assert not content(left=60, cost=0.1).refreshes_early(0.01)
    assert content(left=0.2, cost=0.1).refreshes_early(0.01)
    assert not content(left=0.2, cost=0.1).refreshes_early(0.9)
    assert content(left=60, cost=30).refreshes_early(0.01)


@pytest.mark.parametrize(
    ("left", "cost", "given", "expected"),
    [(10.2, 0.1, 60, False), (10.0, 0.1, 60, True), (6.2, 0.1, 12, False), (6.0, 0.1, 12, True), (39, 30, 60, True)],
)
def test_content_is_about_to_expire_for_two_hot_windows_and_its_cost_but_half_its_life_at_most(
    left: float, cost: float, given: float, expected: bool
) -> None:
    content = Content(b"", "", "", STORED, cost, None, 0, left, given)
    assert content.is_about_to_expire(hot_seconds=5) is expected


def hear(servers: RedisServers, *calls: ScriptCall) -> list[StoredNotice]:
    """The notices of content `k` while the calls run."""
    untyped: Any = servers.cache.client
    with untyped.pubsub(ignore_subscribe_messages=True) as subscription:
        subscription.subscribe(contents.channel_name("k", 0))
        subscription.get_message(timeout=5)
        for call in calls:
            stores.execute_call(call)
        found = [subscription.get_message(timeout=5)]
        while found[-1] is not None:
            found.append(subscription.get_message(timeout=0.05))
        return [StoredNotice.parse(message["data"]) for message in found if message]


def stored(content: Prepared, token: int = 1, work: str = "w") -> ScriptCall:
    return contents.store_call("k", content, token, STORED, 0.25, work, 0)


def test_a_notice_of_stored_content_has_its_record_unless_that_is_large(servers: RedisServers) -> None:
    large = b"x" * (contents.MAX_NOTICE_BYTES + 1)
    small, empty = hear(servers, stored(prepared(b"a\nb", version=3)), stored(prepared(large)))
    assert (small.work_key, small.content_key, empty.work_key, empty.content_key) == ("w", "k", "w", "k")
    content = small.read_content(STORED)
    assert content is not None
    assert (content.body, content.content_type, content.version) == (b"a\nb", "image/png", 3)
    assert (content.stored_at, content.last_modified, content.given_seconds) == (STORED, STORED, 60)
    assert content.is_fresh(3)
    assert empty.read_content(STORED) is None


def test_content_of_a_notice_is_as_fresh_as_it_is_when_it_is_read(servers: RedisServers) -> None:
    [notice] = hear(servers, stored(prepared()))
    for seconds, left in [(-5, 60), (0, 60), (12.5, 47.5), (61, -1)]:  # clocks of two machines may differ
        content = notice.read_content(STORED + timedelta(seconds=seconds))
        assert content is not None
        assert content.fresh_seconds == left
        assert content.is_fresh(0) == (left > 0)


def test_there_is_no_notice_of_content_without_a_work_or_behind_the_fence_or_gone_at_once(
    servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [stored(prepared(), 2, work=""), stored(prepared(), 1)]
    monkeypatch.setattr(contents, "SERVABLE_SECONDS", 0)
    assert hear(servers, *calls, stored(prepared(fresh=0, stale=0), 3)) == []
