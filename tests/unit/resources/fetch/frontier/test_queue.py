"""The frontier under random interleavings, against a model of what must hold."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from resources.fetching.addressing.scopes import via
from resources.fetching.queues import calling, frontier
from resources.fetching.queues.frontier import LANES, End, Hold, Next, PutBack, TryAgain
from resources.fetching.queues.jobs import (
    Again,
    Claimed,
    Doomed,
    Ended,
    Enqueued,
    Held,
    Idle,
    Joined,
    Lane,
    Limits,
    More,
    NoBudget,
    Priority,
    Report,
    Stale,
    Verdict,
    Wish,
)
from resources.fetching.queues.politeness import Politeness
from retry import connections
from tests.conftest import RedisServers
from tests.resources.fetching.asking import job, record
from tests.resources.fetching.clock import Clock

run = connections.run
HOSTS = ["a.example.com", "b.example.com"]
EGRESS = {"a.example.com": "", "b.example.com": "x"}
NAMES = [f"{host}/{name}" for host in HOSTS for name in "1234"]
MOST_IN_FLIGHT = 8


def text(name: object) -> str:
    assert isinstance(name, bytes)
    return name.decode()


@dataclass(slots=True)
class Known:
    """What the model knows of one job: the ids of those who want it, and its holder's claim."""

    wishes: set[str]
    state: str = "waiting"
    claim: Claimed | None = None
    leased_until: float = 0.0
    told: int = 0


class Frontier(RuleBasedStateMachine):
    """The model: which jobs there are, who holds them, and until when each host is blocked."""

    servers: RedisServers
    clock: Clock

    @initialize()
    def empty(self) -> None:
        self.servers.state.client.flushall()
        self.jobs: dict[str, Known] = {}
        self.old: list[Claimed] = []
        self.blocked: dict[str, float] = dict.fromkeys(HOSTS, 0.0)
        self.caps: dict[str, int] = {}
        self.robots: dict[str, float] = dict.fromkeys(HOSTS, 0.0)
        self.paused: set[str] = set()
        self.ids = 0

    @rule(
        name=st.sampled_from(NAMES),
        priority=st.sampled_from(Priority),
        lane=st.sampled_from(LANES),
        later=st.sampled_from([0.0, 0.0, 5.0]),
        expires=st.sampled_from([None, None, 20.0]),
        obeys=st.booleans(),
    )
    def enqueue(
        self, *, name: str, priority: Priority, lane: Lane, later: float, expires: float | None, obeys: bool
    ) -> None:
        self.ids += 1
        host, _, path = name.partition("/")
        wish = Wish(f"wish-{self.ids}")
        expires_at = self.clock.unix + expires if expires else None
        given = replace(
            job(path, host, wish=wish),
            priority=priority,
            lane=lane,
            not_before_seconds=later,
            expires_at=expires_at,
            egress=EGRESS[host],
            obeys_robots=obeys,
        )
        found = run(frontier.enqueue(given))
        if name in self.jobs:
            assert isinstance(found, Joined)
            self.jobs[name].wishes.add(wish.id)
        else:
            assert isinstance(found, Enqueued)
            self.jobs[name] = Known({wish.id})

    @rule(lanes=st.sampled_from([LANES, ("fast",), ("slow",)]))
    def claim(self, lanes: tuple[Lane, ...]) -> None:
        self._claim(lanes)

    def _claim(self, lanes: tuple[Lane, ...]) -> None:
        found = run(frontier.claim("w", "m", lanes))
        if isinstance(found, Idle):
            assert found.wait_seconds <= 60
            return
        claim = found.job if isinstance(found, Doomed) else found
        name = claim.url.removeprefix("https://")
        known = self.jobs[name]
        assert known.state == "waiting" or self.clock.seconds >= known.leased_until, "claimed twice"
        assert {wish.id for wish in claim.wishes} == known.wishes
        if known.claim:
            assert claim.token > known.claim.token
            self.old.append(known.claim)
        known.claim, known.leased_until = claim, self.clock.seconds + 15
        known.state = "ending" if isinstance(found, Doomed) else "running"
        known.told = len(known.wishes)
        if isinstance(found, Claimed):
            assert claim.lane in lanes
            assert self.clock.seconds >= self.blocked[claim.host], "sent to a blocked host"
            assert claim.host not in self.paused, "sent to a paused host"
            assert not self._asks_robots(claim.host, but=name), "sent while robots.txt is asked for"
            assert not claim.needs_robots or self.clock.seconds >= self.robots[claim.host], "robots.txt was known"
            assert self._in_flight(claim.host) <= self.caps.get(claim.host, MOST_IN_FLIGHT), "above the cap"

    def _asks_robots(self, host: str, but: str) -> bool:
        return any(
            (claim := self.jobs[name].claim) and claim.needs_robots and claim.host == host
            for name in self._held("running")
            if name != but
        )

    @rule(host=st.sampled_from(HOSTS), seconds=st.sampled_from([0.0, 5.0]))
    def learn_robots(self, host: str, seconds: float) -> None:
        run(frontier.set_crawl_delay(via(host, EGRESS[host]), seconds, 30))
        self.robots[host] = self.clock.seconds + 30

    def _in_flight(self, host: str) -> int:
        now = self.clock.seconds
        running = [known.claim for known in self.jobs.values() if known.state == "running" and known.leased_until > now]
        return sum(claim is not None and claim.host == host for claim in running)

    def _held(self, *states: str) -> list[str]:
        """Names of jobs in those states whose lease is in force."""
        now = self.clock.seconds
        return [name for name, one in self.jobs.items() if one.state in states and one.leased_until > now]

    @precondition(lambda self: self._held("running"))
    @rule(
        data=st.data(),
        verdict=st.sampled_from(Verdict),
        then=st.sampled_from(["end", "hold", "again", "back"]),
        asked=st.sampled_from([0.0, 30.0]),
    )
    def report(self, data: st.DataObject, verdict: Verdict, then: str, asked: float) -> None:
        name = data.draw(st.sampled_from(self._held("running")))
        known = self.jobs[name]
        claim = known.claim
        assert claim
        steps: dict[str, Next] = {
            "end": End(claim.version),
            "hold": Hold(),
            "again": TryAgain(3),
            "back": PutBack(),
        }
        found = run(frontier.report(claim, "m", Report(verdict, 0.1, "x", asked), steps[then]))
        if verdict is Verdict.THROTTLED:
            self.blocked[claim.host] = max(self.blocked[claim.host], self.clock.seconds + asked)
        match found:
            case Again():
                assert then in {"again", "back"} or verdict in {Verdict.THROTTLED, Verdict.UNREACHABLE, Verdict.AWAY}
                known.state = "waiting"
            case Held():
                assert then == "hold"
                known.state = "holding"
            case NoBudget():
                assert then == "again"
                known.state = "holding"
            case Ended():
                assert then == "end"
                assert known.told == len(known.wishes), "ended behind somebody's back"
                del self.jobs[name]
            case More(_, wishes):
                assert {wish.id for wish in wishes} == known.wishes
                assert known.told < len(known.wishes)
                known.state = "holding"
            case Stale():
                raise AssertionError("lost a lease that was in force")
        self.old.append(claim)

    @precondition(lambda self: self._held("holding", "ending"))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self._held("holding", "ending")))
        known = self.jobs[name]
        assert known.claim
        found = run(frontier.finish(known.claim))
        while isinstance(found, More):
            assert {wish.id for wish in found.wishes} == known.wishes
            found = run(frontier.finish(known.claim, found.version))
        assert found == Ended()
        del self.jobs[name]

    @precondition(lambda self: self.old)
    @rule(data=st.data())
    def somebody_reports_late(self, data: st.DataObject) -> None:
        """Whoever lost a job changes nothing any more."""
        claim = data.draw(st.sampled_from(self.old))
        known = self.jobs.get(claim.url.removeprefix("https://"))
        if known and known.claim is claim:
            return  # still its own
        assert run(frontier.report(claim, "m", Report(Verdict.OK), End(claim.version))) == Stale()
        assert run(frontier.finish(claim)) == Stale()
        assert run(frontier.renew([claim])) == {claim.key}

    @rule(seconds=st.sampled_from([0.05, 0.5, 2.0, 6.0, 16.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.pass_by(seconds)

    @precondition(lambda self: self._held("running", "holding", "ending"))
    @rule()
    def renew(self) -> None:
        names = self._held("running", "holding", "ending")
        claims = [claim for name in names if (claim := self.jobs[name].claim)]
        assert run(frontier.renew(claims)) == set()
        for name in names:
            self.jobs[name].leased_until = self.clock.seconds + 15

    @precondition(lambda self: self._held("running", "holding", "ending"))
    @rule(data=st.data())
    def some_have_not_come_to_their_worker(self, data: st.DataObject) -> None:
        known = st.sampled_from(self._held("running", "holding", "ending"))
        held = data.draw(st.lists(known, unique=True))
        run(frontier.put_back("w", [f"https://{name}" for name in held]))
        for name, one in self.jobs.items():
            if name not in held:
                one.state = "waiting"

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), lane=st.sampled_from(LANES), priority=st.sampled_from(Priority))
    def move(self, data: st.DataObject, lane: Lane, priority: Priority) -> None:
        name = data.draw(st.sampled_from(sorted(self.jobs)))
        run(frontier.move(f"https://{name}", lane, priority))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.jobs)))
        found = run(frontier.remove(f"https://{name}"))
        if found == "removed":
            assert self.jobs[name].state == "waiting" or self.jobs[name].leased_until <= self.clock.seconds
            del self.jobs[name]
        else:
            assert found == "in_flight"

    @rule(host=st.sampled_from(HOSTS), cap=st.sampled_from([None, 1, 3]), paused=st.sampled_from([False, False, True]))
    def set_limits(self, host: str, cap: int | None, paused: bool) -> None:
        run(frontier.set_limits(host, Limits(delay_seconds=0.1, in_flight=cap, paused=paused)))
        self.caps.pop(host, None)
        if cap:
            self.caps[host] = max(cap, self._in_flight(host))  # what is in flight is not called back
        (self.paused.add if paused else self.paused.discard)(host)

    @rule(host=st.sampled_from(HOSTS), blocked=st.booleans())
    def block_or_unblock(self, host: str, blocked: bool) -> None:
        run(frontier.block(host, 10) if blocked else frontier.unblock(host))
        self.blocked[host] = self.clock.seconds + 10 if blocked else 0.0
        self._claim(LANES)

    @invariant()
    def every_job_is_somewhere_and_only_there(self) -> None:
        state = self.servers.state.client
        jobs = {text(key).removeprefix("fetch:job:https://") for key in state.keys("fetch:job:*")}
        assert jobs == set(self.jobs)
        queued = [m for key in state.keys("fetch:jobs:*") for m in state.zrange(key, 0, -1)]
        later, leased = state.zrange("fetch:later", 0, -1), state.zrange("fetch:leases", 0, -1)
        found = [text(m) for m in [*queued, *later, *leased, *state.zrange("fetch:doomed", 0, -1)]]
        assert sorted(found) == sorted(f"https://{name}" for name in self.jobs)
        assert int(state.get("fetch:queued") or 0) == len(queued) + len(later)

    @invariant()
    def counts_agree_with_what_is_there(self) -> None:
        state = self.servers.state.client
        for host in HOSTS:
            scope = via(host, EGRESS[host])
            fields = record(scope)
            running = [
                key for key in state.keys(f"fetch:job:https://{host}/*") if state.hget(key, "state") == b"running"
            ]
            assert int(float(fields.get("in_flight", 0))) == len(running)
            slow = sum(state.hget(key, "lane") == b"slow" for key in running)
            assert int(float(fields.get("slow_in_flight", 0))) == slow
            for lane in LANES:
                total = 0.0
                for priority in Priority:
                    name = f"fetch:jobs:{scope}:{lane}:{int(priority)}"
                    waiting = map(text, state.zrange(name, 0, -1))
                    total += sum(float(state.hget(f"fetch:job:{key}", "expected") or 0) for key in waiting)
                    assert int(float(fields.get(f"{lane}_{int(priority)}", 0))) == state.zcard(name)
                assert float(fields.get(f"sum_{lane}", 0)) == pytest.approx(total)

    @invariant()
    def a_host_stands_in_one_place_of_each_line_or_in_none(self) -> None:
        state = self.servers.state.client
        for host, egress in EGRESS.items():
            scope = via(host, egress)
            for lane in LANES:
                places = [
                    text(key)
                    for line in ("due", "waiting")
                    for key in state.keys(f"fetch:{line}:{lane}:*")
                    if state.zscore(key, scope) is not None
                ]
                assert places == [place for place in [record(scope).get(f"at_{lane}", "")] if place]
                assert all(place.endswith(via("", egress)) for place in places)


@pytest.mark.usefixtures("servers")
def test_the_frontier_keeps_its_promises_in_any_order(
    servers: RedisServers, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "politeness", lambda: Politeness(retry_budget=2, failures_to_open=2, outage_hosts=2))
    Frontier.servers, Frontier.clock = servers, clock
    run_state_machine_as_test(
        Frontier,
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
