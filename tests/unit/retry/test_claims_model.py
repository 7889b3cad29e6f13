"""Claims under random interleavings, against a model."""

from collections import Counter
from dataclasses import dataclass, replace
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from retry import claim_state, claims, stores
from retry.errors import PreparationError
from retry.work import Work
from tests.conftest import RedisServers
from tests.support.claim_calls import LONG_AGO, forget_who_asked, make_long, queued, swept_for_long

WORKS = [Work(f"paint:{n}", "paint", "paint.now", "paint.refresh", "t") for n in range(3)]
LANES = ["paint.now", "paint.refresh", "paint.warm"]
UP = {"paint.refresh": "paint.now", "paint.warm": "paint.refresh"}


@dataclass(slots=True)
class Claim:
    token: int
    lane: str
    client: str
    running: bool = False
    nonce: str = ""
    lapses: int = 0
    wanted: bool = True
    aged: bool = False


class Claims(RuleBasedStateMachine):
    """The model: the claims there are, the newest token, the works with a record of their end, and the done marks."""

    servers: RedisServers
    copies = Bundle("copies")

    @initialize()
    def empty(self) -> None:
        self.servers.state.client.flushall()
        self.newest = 0
        self.held: dict[str, Claim] = {}
        self.blocked: set[str] = set()
        self.ended: dict[str, int] = {}

    @rule(
        target=copies,
        work=st.sampled_from(WORKS),
        lane=st.sampled_from(LANES),
        refresh=st.booleans(),
        client=st.sampled_from(["", "192.0.2.1", "192.0.2.2"]),
        popular=st.booleans(),
    )
    def begin(self, work: Work, lane: str, refresh: bool, client: str, popular: bool) -> tuple[str, int]:
        asked = replace(work, lane=lane, refresh_lane=lane)
        call = claims.begin_call(asked, refresh=refresh, client=client, popular="1" if popular else "")
        found = claim_state.read_claim_state(stores.execute_call(call))
        claim = self.held.get(work.key)
        match found:
            case claim_state.ClaimBegun(token, _):
                assert claim is None
                assert token > self.newest
                self.newest = token
                self.held[work.key] = Claim(token, lane, client)
                return work.key, token
            case claim_state.ClaimPromoted(token, _):
                assert claim
                assert not claim.running
                assert LANES.index(lane) < LANES.index(claim.lane)
                claim.lane, claim.client, claim.wanted = lane, client, True
                assert claim.token == token
                return work.key, token
            case claim_state.ClaimTaken(token, _):
                assert claim
                assert claim.running or LANES.index(lane) >= LANES.index(claim.lane)
                claim.wanted = True
                assert claim.token == token
                if not refresh and lane == claim.lane and client and not claim.running:  # it may have moved ahead
                    held = self.servers.state.client.hget(f"retry:{{0}}:claim:{work.key}", "client")
                    assert held in {client.encode(), claim.client.encode()}
                    claim.client = client if held == client.encode() else claim.client
                return work.key, token
            case _:
                assert claim is None
                assert work.key in self.blocked
                return work.key, 0

    @rule(work=st.sampled_from(WORKS))
    def look(self, work: Work) -> None:
        found = claim_state.read_claim_state(stores.execute_call(claims.look_call(work.key)))
        assert isinstance(found, claim_state.ClaimTaken) == (work.key in self.held)
        if work.key in self.held:
            self.held[work.key].wanted = True

    @rule(work=st.sampled_from(WORKS))
    def nobody_asks_for_long(self, work: Work) -> None:
        if work.key in self.held:
            forget_who_asked(self.servers, work)
            self.held[work.key].wanted = False

    @rule(copy=copies, long=st.booleans())
    def start_any_copy(self, copy: tuple[str, int], long: bool) -> None:
        self._start(*copy, long)

    @rule(work=st.sampled_from(WORKS), long=st.booleans())
    def start_the_newest_copy(self, work: Work, long: bool) -> None:
        if work.key in self.held:
            self._start(work.key, self.held[work.key].token, long)

    @rule(lane=st.sampled_from(LANES), long=st.booleans())
    def handle_any_message_of_a_lane(self, lane: str, long: bool) -> None:
        self._lengthen_lanes(long)
        waiting, nonce = queued(self.servers, lane), uuid4().hex
        reply = stores.execute_call(claims.start_next_call(lane, "of another time", nonce))
        found = claims.read_started(reply)
        assert found.work_key in (waiting or {"of another time"})
        claim = self.held.get(found.work_key)
        self._check_start(found.work_key, claim.token if claim else 0, long, nonce, found)

    def _start(self, key: str, token: int, long: bool) -> None:
        self._lengthen_lanes(long)
        nonce = uuid4().hex
        found = claims.read_started(stores.execute_call(claims.start_call(key, token, nonce)))
        self._check_start(key, token, long, nonce, found)

    def _check_start(self, key: str, token: int, long: bool, nonce: str, found: claims.StartedWork) -> None:
        claim = self.held.get(key)
        if claim is None or claim.token != token or claim.running:
            assert found.outcome == 0
        elif long and not claim.wanted and not claim.aged and claim.lane != "paint.warm":
            assert found.outcome == claims.SKIPPED
            del self.held[key]
            self.ended[key] = token
        else:
            assert found.outcome == claims.STARTED
            assert found.token > self.newest
            claim.running, claim.nonce, claim.token = True, nonce, found.token
            self.newest = found.token

    def _lengthen_lanes(self, long: bool) -> None:
        swept_for_long(self.servers)
        for lane in LANES:
            make_long(self.servers, lane) if long else self.servers.state.client.set(f"retry:{{0}}:duration:{lane}", 1)

    @rule(target=copies, lane=st.sampled_from(list(UP)))
    def a_lane_does_not_get_its_turn(self, lane: str) -> tuple[str, int]:
        state = self.servers.state.client
        state.hset("retry:{0}:started", lane, LONG_AGO)
        for key in queued(self.servers, lane):
            state.hset(f"retry:{{0}}:claim:{key}", mapping={"asked": LONG_AGO, "since": LONG_AGO})
            self.held[key].wanted = False
        found = stores.execute_call(claims.age_call(0, lane, UP[lane], 2))
        assert isinstance(found, list)
        there = [key for key, claim in self.held.items() if claim.lane == lane and not claim.running]
        assert len(found) == min(2, len(there))
        for key, token, _ in found:
            claim = self.held[key.decode()]
            assert (claim.lane, claim.token, claim.running) == (lane, int(token), False)
            claim.lane, claim.client, claim.aged = UP[lane], "", True
        return (found[0][0].decode(), int(found[0][1])) if found else (WORKS[0].key, 0)

    @rule(copy=copies)
    def renew(self, copy: tuple[str, int]) -> None:
        key, token = copy
        renewed = stores.execute_call(claims.renew_call(key, token)) == 1
        claim = self.held.get(key)
        assert renewed == bool(claim and claim.token == token and claim.running)

    @rule(copy=copies, by_starter=st.booleans())
    def requeue(self, copy: tuple[str, int], by_starter: bool) -> None:
        key, token = copy
        claim = self.held.get(key)
        nonce = claim.nonce if claim and by_starter else "another"
        put_back = stores.execute_call(claims.requeue_call(key, token, 1, nonce)) == 1
        assert put_back == bool(claim and claim.token == token and claim.running and by_starter)
        if claim and put_back:
            claim.running, claim.lapses = False, 0

    @rule(copy=consumes(copies), stored=st.booleans())
    def finish(self, copy: tuple[str, int], stored: bool) -> None:
        key, token = copy
        if not token:
            return
        call = (
            claims.finish_stored_call(key, token, 0.01)
            if stored
            else claims.finish_failed_call(key, token, PreparationError("x", status=502), luck=0.5)
        )
        ended = stores.execute_call(call) == 1
        claim = self.held.get(key)
        assert ended == ((claim.token if claim else self.ended.get(key)) == token)
        if ended and claim:
            self.held.pop(key, None)
            self.blocked.add(key)
            self.ended[key] = token

    @rule(copy=copies)
    def abandon(self, copy: tuple[str, int]) -> None:
        key, token = copy
        taken_back = stores.execute_call(claims.abandon_call(key, token)) == 1
        claim = self.held.get(key)
        assert taken_back == bool(claim and claim.token == token and not claim.running)
        if taken_back:
            del self.held[key]

    @rule(target=copies, work=st.sampled_from(WORKS))
    def time_passes(self, work: Work) -> tuple[str, int]:
        for name in ("retry:{0}:claims", "retry:{0}:leases"):
            self.servers.state.client.zadd(name, {work.key: 1}, xx=True)
        found = stores.execute_call(claims.sweep_call(0, 10, cache_is_away=False))
        assert isinstance(found, list)
        claim = self.held.get(work.key)
        if claim is None:
            assert found == []
            return work.key, 0
        [(what, _, token, lane, _)] = found
        assert lane.decode() == claim.lane
        if not claim.running:
            assert (what, int(token)) == (b"due", claim.token)
        elif claim.lapses == 0:
            assert what == b"again"
            assert int(token) > self.newest
            self.newest = claim.token = int(token)
            claim.lapses, claim.running = 1, False
        else:
            assert (what, int(token)) == (b"lapsed", claim.token)
        return work.key, int(token)

    @rule(work=st.sampled_from(WORKS))
    def records_expire(self, work: Work) -> None:
        state = self.servers.state.client
        state.delete(f"retry:{{0}}:failure:{work.key}", f"retry:{{0}}:done:{work.key}")
        self.ended.pop(work.key, None)
        self.blocked.discard(work.key)

    @invariant()
    def every_lane_counts_what_waits_in_it(self) -> None:
        for lane in LANES:
            waiting = {key for key, claim in self.held.items() if claim.lane == lane and not claim.running}
            assert queued(self.servers, lane) == waiting
            clients = Counter(self.held[key].client.encode() for key in waiting if self.held[key].client)
            shares = self.servers.state.client.hgetall(f"retry:{{0}}:shares:{lane}")
            assert {client: int(number) for client, number in shares.items()} == clients

    @invariant()
    def every_claim_is_under_the_sweepers_eye(self) -> None:
        state = self.servers.state.client
        running = {key.encode() for key, claim in self.held.items() if claim.running}
        assert set(state.zrange("retry:{0}:leases", 0, -1)) == running
        assert set(state.zrange("retry:{0}:claims", 0, -1)) == {key.encode() for key in self.held} - running


@pytest.mark.usefixtures("servers")
def test_claims_keep_their_promises_in_any_order(servers: RedisServers) -> None:
    Claims.servers = servers
    run_state_machine_as_test(
        Claims, settings=settings(max_examples=50, stateful_step_count=40, suppress_health_check=list(HealthCheck))
    )
