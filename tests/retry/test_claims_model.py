"""Claims under random interleavings, against a model of what must hold."""

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

from retry import claims, connections, standings
from retry.work import Work
from tests.conftest import RedisServers

WORKS = [Work(f"paint:{n}", "paint", "paint.now", "paint.refresh", "t") for n in range(3)]


class Claims(RuleBasedStateMachine):
    """The model: per work the newest token, whether it is running, and how often its lease lapsed."""

    servers: RedisServers
    copies = Bundle("copies")

    @initialize()
    def empty(self) -> None:
        self.servers.state.client.flushall()
        self.newest = 0
        self.held: dict[str, int] = {}
        self.running: set[str] = set()
        self.lapses: dict[str, int] = {}
        self.blocked: set[str] = set()

    @rule(target=copies, work=st.sampled_from(WORKS), refresh=st.booleans())
    def begin(self, work: Work, refresh: bool) -> tuple[str, int]:
        found = standings.standing(connections.execute(claims.beginning(work, refresh=refresh)))
        match found:
            case standings.Begun(token, _):
                assert work.key not in self.held
                assert token > self.newest
                self.newest = self.held[work.key] = token
                self.lapses[work.key] = 0
                return work.key, token
            case standings.Promoted(token, _) | standings.Claimed(token, _):
                assert self.held[work.key] == token
                return work.key, token
            case _:
                assert work.key in self.blocked
                return work.key, 0

    @rule(copy=copies)
    def start(self, copy: tuple[str, int]) -> None:
        key, token = copy
        won = connections.execute(claims.starting(key, token, uuid4().hex)) == 1
        assert won == (self.held.get(key) == token and key not in self.running)
        if won:
            self.running.add(key)

    @rule(copy=copies)
    def renew(self, copy: tuple[str, int]) -> None:
        key, token = copy
        renewed = connections.execute(claims.renewing(key, token)) == 1
        assert renewed == (self.held.get(key) == token and key in self.running)

    @rule(copy=consumes(copies), stored=st.booleans())
    def finish(self, copy: tuple[str, int], stored: bool) -> None:
        key, token = copy
        if not token or key not in self.held:
            return
        call = (
            claims.finishing_stored(key, token, 0.01)
            if stored
            else claims.finishing_failed(key, token, status=502, detail="x", luck=0.5)
        )
        ended = connections.execute(call) == 1
        assert ended == (self.held[key] == token)
        if ended:
            del self.held[key]
            self.running.discard(key)
            self.blocked.add(key)

    @rule(copy=copies)
    def abandon(self, copy: tuple[str, int]) -> None:
        key, token = copy
        taken_back = connections.execute(claims.abandoning(key, token)) == 1
        assert taken_back == (self.held.get(key) == token and key not in self.running)
        if taken_back:
            del self.held[key]

    @rule(target=copies, work=st.sampled_from(WORKS))
    def time_passes(self, work: Work) -> tuple[str, int]:
        for name in ("retry:claims", "retry:leases"):
            self.servers.state.client.zadd(name, {work.key: 1}, xx=True)
        found = connections.execute(claims.sweeping(10))
        assert isinstance(found, list)
        if work.key not in self.held:
            assert found == []
            return work.key, 0
        [(what, _, token, _, _)] = found
        if work.key not in self.running:
            assert (what, int(token)) == (b"again", self.held[work.key])
        elif self.lapses[work.key] == 0:
            assert what == b"again"
            assert int(token) > self.newest
            self.newest = self.held[work.key] = int(token)
            self.lapses[work.key] = 1
            self.running.discard(work.key)
        else:
            assert (what, int(token)) == (b"lapsed", self.held[work.key])
        return work.key, int(token)

    @rule(work=st.sampled_from(WORKS))
    def records_expire(self, work: Work) -> None:
        self.servers.state.client.delete(f"retry:failure:{work.key}", f"retry:done:{work.key}")
        self.blocked.discard(work.key)

    @invariant()
    def the_backlog_counts_what_is_queued(self) -> None:
        state = self.servers.state.client
        queued = state.zcard("retry:queued:paint.now") + state.zcard("retry:queued:paint.refresh")
        assert queued == len(self.held.keys() - self.running)

    @invariant()
    def every_claim_is_under_the_sweepers_eye(self) -> None:
        state = self.servers.state.client
        assert set(state.zrange("retry:claims", 0, -1)) == {key.encode() for key in self.held.keys() - self.running}
        assert set(state.zrange("retry:leases", 0, -1)) == {key.encode() for key in self.running}


@pytest.mark.usefixtures("servers")
def test_claims_keep_their_promises_in_any_order(servers: RedisServers) -> None:
    Claims.servers = servers
    run_state_machine_as_test(
        Claims,
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
