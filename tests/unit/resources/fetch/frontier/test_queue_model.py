"""The frontier against a model: random interleavings of all its calls."""

import re
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha1

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

from resources.fetch.frontier import jobs, queue
from resources.fetch.frontier.politeness import Politeness
from resources.fetch.frontier.queue import AfterReport, EndJob, HoldJob, PutJobBack, RetryJob
from resources.fetch.http.limit_scopes import scope_via
from retry import stores
from tests.conftest import RedisServers
from tests.support.frontier import claim, job, report
from tests.support.frontier_clock import Clock

run = stores.run_steps
EGRESS = {"a.example.com": "", "b.example.com": "x"}
HOSTS = list(EGRESS)
NAMES = [f"{host}/{name}" for host in HOSTS for name in "1234"]
MOST_IN_FLIGHT = 8
MACHINES = {"m": "w", "another": "another:w"}
"""The fetcher of each machine."""


def text(name: object) -> str:
    assert isinstance(name, bytes)
    return name.decode()


def part_of(lent: object, host: str) -> str:
    """The part that the host moves with: that of its name, or the loans of a fetcher."""
    number = int(sha1(host.encode()).hexdigest()[:2], 16) % 64
    return scope_via(f"lent to {text(lent)}" if lent else str(number), EGRESS[host])


Hashes = dict[str, dict[str, str]]
Sets = dict[str, list[str]]


def read_frontier(servers: RedisServers) -> tuple[Hashes, Sets, int]:
    """Returns the hashes of jobs, domains and owners, the sorted sets, by their names; and `fetch:{0}:queued`."""
    state = servers.state.client
    names = [text(key) for key in state.keys("fetch:*")]
    named = {"fetch:{0}:left", "fetch:{0}:owners"}
    hashes = [name for name in names if name.startswith(("fetch:{0}:job:", "fetch:{0}:domain:")) or name in named]
    lines = ("fetch:{0}:jobs:", "fetch:{0}:due:", "fetch:{0}:short:", "fetch:{0}:waiting:")
    sets = [
        name
        for name in names
        if name.startswith(lines) or name in {"fetch:{0}:later", "fetch:{0}:leases", "fetch:{0}:doomed"}
    ]
    pipeline = state.pipeline()
    for name in hashes:
        pipeline.hgetall(name)
    for name in sets:
        pipeline.zrange(name, 0, -1)
    pipeline.get("fetch:{0}:queued")
    *found, queued = pipeline.execute()
    fields = [{text(name): text(value) for name, value in each.items()} for each in found[: len(hashes)]]
    keys = [[text(key) for key in each] for each in found[len(hashes) :]]
    short = [name.removeprefix("fetch:{0}:") for name in (*hashes, *sets)]
    return dict(zip(short, fields, strict=False)), dict(zip(short[len(hashes) :], keys, strict=True)), int(queued or 0)


@dataclass(slots=True)
class Known:
    """The model's record of one job: the ids of its waiters, and its holder's machine and claim."""

    waiters: set[str]
    state: str = "waiting"
    machine: str = ""
    claim: jobs.ClaimedJob | None = None
    leased_until: float = 0.0
    told: int = 0


class Frontier(RuleBasedStateMachine):
    """The model: the jobs, their holders, and the end of each host's block."""

    servers: RedisServers
    clock: Clock

    @initialize()
    def empty(self) -> None:
        self.servers.state.client.flushall()
        self.jobs: dict[str, Known] = {}
        self.old: list[jobs.ClaimedJob] = []
        self.blocked: dict[str, float] = dict.fromkeys(HOSTS, 0.0)
        self.caps: dict[str, int] = {}
        self.robots: dict[str, float] = dict.fromkeys(HOSTS, 0.0)
        self.paused: set[str] = set()
        self.ids = 0

    @rule(
        name=st.sampled_from(NAMES),
        priority=st.sampled_from(jobs.JobPriority),
        lane=st.sampled_from(jobs.FETCH_LANES),
        later=st.sampled_from([0.0, 0.0, 5.0]),
        expires=st.sampled_from([None, None, 20.0]),
        obeys=st.booleans(),
    )
    def enqueue(
        self,
        *,
        name: str,
        priority: jobs.JobPriority,
        lane: jobs.FetchLane,
        later: float,
        expires: float | None,
        obeys: bool,
    ) -> None:
        self.ids += 1
        host, _, path = name.partition("/")
        waiter = jobs.Waiter(f"waiter-{self.ids}")
        expires_at = self.clock.unix + expires if expires else None
        given = replace(
            job(path, host, waiter=waiter),
            priority=priority,
            lane=lane,
            not_before_seconds=later,
            expires_at=expires_at,
            egress=EGRESS[host],
            obeys_robots=obeys,
        )
        found = run(queue.enqueue_job(given))
        if name in self.jobs:
            assert isinstance(found, jobs.JobJoined)
            self.jobs[name].waiters.add(waiter.id)
        else:
            assert isinstance(found, jobs.JobEnqueued)
            self.jobs[name] = Known({waiter.id})

    @rule(
        lanes=st.sampled_from([jobs.FETCH_LANES, ("fast",), ("slow",)]), machine=st.sampled_from(["m", "m", "another"])
    )
    def claim(self, lanes: tuple[jobs.FetchLane, ...], machine: str) -> None:
        self._claim(lanes, machine)

    @rule(machine=st.sampled_from(list(MACHINES)), comes=st.booleans())
    def a_fetcher_comes_or_goes(self, machine: str, comes: bool) -> None:
        fetcher = MACHINES[machine]
        run(queue.sign_in_fetcher(fetcher, machine) if comes else queue.sign_out_fetcher(fetcher))

    def _is_owner(self, machine: str, host: str) -> bool:
        """True also if its network is away: then it may try anybody's domains."""
        state = self.servers.state.client
        owner = state.hget(
            "fetch:{0}:owners", part_of(state.hget(f"fetch:{{0}}:domain:{scope_via(host, EGRESS[host])}", "lent"), host)
        )
        away = f"fetch:{{0}}:network:{scope_via(machine, EGRESS[host])}"
        return owner == MACHINES[machine].encode() or bool(state.exists(away))

    def _claim(self, lanes: tuple[jobs.FetchLane, ...], machine: str = "m") -> None:
        found = claim(*lanes, machine=machine)
        if isinstance(found, jobs.NothingDue):
            assert found.wait_seconds <= 60
            return
        held = found.job if isinstance(found, jobs.DeadJob) else found
        name = held.url.removeprefix("https://")
        known = self.jobs[name]
        assert known.state == "waiting" or self.clock.seconds >= known.leased_until, "claimed twice"
        assert {waiter.id for waiter in held.waiters} == known.waiters
        if known.claim:
            assert held.token > known.claim.token
            self.old.append(known.claim)
        known.claim, known.machine, known.leased_until = held, machine, self.clock.seconds + 15
        known.state = "ending" if isinstance(found, jobs.DeadJob) else "running"
        known.told = len(known.waiters)
        if isinstance(found, jobs.ClaimedJob):
            assert held.lane in lanes
            assert self._is_owner(machine, held.host), "claimed by another than its owner"
            assert self.clock.seconds >= self.blocked[held.host], "sent to a blocked host"
            assert held.host not in self.paused, "sent to a paused host"
            assert not self._asks_robots(held.host, but=name), "sent while robots.txt is asked for"
            assert not held.needs_robots or self.clock.seconds >= self.robots[held.host], "robots.txt was known"
            assert self._in_flight(held.host) <= self.caps.get(held.host, MOST_IN_FLIGHT), "above the cap"

    def _asks_robots(self, host: str, but: str) -> bool:
        return any(
            (claim := self.jobs[name].claim) and claim.needs_robots and claim.host == host
            for name in self._held("running")
            if name != but
        )

    @rule(host=st.sampled_from(HOSTS), seconds=st.sampled_from([0.0, 5.0]))
    def learn_robots(self, host: str, seconds: float) -> None:
        run(queue.set_crawl_delay(scope_via(host, EGRESS[host]), seconds, 30))
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
        verdict=st.sampled_from(jobs.RateVerdict),
        then=st.sampled_from(["end", "hold", "again", "back"]),
        asked=st.sampled_from([0.0, 30.0]),
    )
    def report(self, data: st.DataObject, verdict: jobs.RateVerdict, then: str, asked: float) -> None:
        name = data.draw(st.sampled_from(self._held("running")))
        known = self.jobs[name]
        claim = known.claim
        assert claim
        steps: dict[str, AfterReport] = {
            "end": EndJob(claim.version),
            "hold": HoldJob(),
            "again": RetryJob(3),
            "back": PutJobBack(),
        }
        found = report(claim, jobs.RequestReport(verdict, 0.1, "x", asked), steps[then], known.machine)
        if verdict is jobs.RateVerdict.THROTTLED:
            self.blocked[claim.host] = max(self.blocked[claim.host], self.clock.seconds + asked)
        match found:
            case jobs.JobRequeued():
                assert then in {"again", "back"} or verdict in {
                    jobs.RateVerdict.THROTTLED,
                    jobs.RateVerdict.UNREACHABLE,
                    jobs.RateVerdict.AWAY,
                }
                known.state = "waiting"
            case jobs.JobHeld():
                assert then == "hold"
                known.state = "holding"
            case jobs.NoRetryBudget():
                assert then == "again"
                known.state = "holding"
            case jobs.JobEnded():
                assert then == "end"
                assert known.told == len(known.waiters), "ended behind somebody's back"
                del self.jobs[name]
            case jobs.MoreWaiters(_, waiters):
                assert {waiter.id for waiter in waiters} == known.waiters
                assert known.told < len(known.waiters)
                known.state = "holding"
            case jobs.JobLost():
                raise AssertionError("lost a lease that was in force")
        self.old.append(claim)

    @precondition(lambda self: self._held("holding", "ending"))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self._held("holding", "ending")))
        known = self.jobs[name]
        assert known.claim
        found = run(queue.finish_job(known.claim))
        assert isinstance(found, jobs.MoreWaiters) is (known.told < len(known.waiters)), "ended behind somebody's back"
        while isinstance(found, jobs.MoreWaiters):
            assert {waiter.id for waiter in found.waiters} == known.waiters
            found = run(queue.finish_job(known.claim, found.version))
        assert found == jobs.JobEnded()
        del self.jobs[name]

    @precondition(lambda self: self.old)
    @rule(data=st.data())
    def somebody_reports_late(self, data: st.DataObject) -> None:
        """A fetcher that lost a job changes nothing."""
        claim = data.draw(st.sampled_from(self.old))
        known = self.jobs.get(claim.url.removeprefix("https://"))
        if known and known.claim is claim:
            return  # still its own
        assert report(claim) == jobs.JobLost()
        assert run(queue.finish_job(claim)) == jobs.JobLost()
        assert run(queue.renew_job_leases([claim])) == {claim.key}

    @rule(seconds=st.sampled_from([0.05, 0.5, 2.0, 6.0, 16.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.pass_by(seconds)

    @precondition(lambda self: self._held("running", "holding", "ending"))
    @rule()
    def renew(self) -> None:
        names = self._held("running", "holding", "ending")
        claims = [claim for name in names if (claim := self.jobs[name].claim)]
        assert run(queue.renew_job_leases(claims)) == set()
        for name in names:
            self.jobs[name].leased_until = self.clock.seconds + 15

    @precondition(lambda self: self._held("running", "holding", "ending"))
    @rule(data=st.data())
    def some_have_not_come_to_their_worker(self, data: st.DataObject) -> None:
        known = st.sampled_from(self._held("running", "holding", "ending"))
        held = data.draw(st.lists(known, unique=True))
        run(queue.requeue_unheld_jobs("w", [f"https://{name}" for name in held]))
        for name, one in self.jobs.items():
            if name not in held and one.machine == "m":
                one.state = "waiting"

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), lane=st.sampled_from(jobs.FETCH_LANES), priority=st.sampled_from(jobs.JobPriority))
    def move(self, data: st.DataObject, lane: jobs.FetchLane, priority: jobs.JobPriority) -> None:
        name = data.draw(st.sampled_from(sorted(self.jobs)))
        run(queue.move_job(f"https://{name}", lane, priority))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.jobs)))
        found = run(queue.withdraw_waiter(f"https://{name}"))
        if found == "removed":
            assert self.jobs[name].state == "waiting" or self.jobs[name].leased_until <= self.clock.seconds
            del self.jobs[name]
        else:
            assert found == "in_flight"

    @rule(host=st.sampled_from(HOSTS), cap=st.sampled_from([None, 1, 3]), paused=st.sampled_from([False, False, True]))
    def set_limits(self, host: str, cap: int | None, paused: bool) -> None:
        run(queue.set_limits(host, jobs.DomainLimits(delay_seconds=0.1, in_flight=cap, paused=paused)))
        self.caps.pop(host, None)
        if cap:
            self.caps[host] = max(cap, self._in_flight(host))  # requests in flight are not called back
        (self.paused.add if paused else self.paused.discard)(host)

    @rule(host=st.sampled_from(HOSTS), blocked=st.booleans())
    def block_or_unblock(self, host: str, blocked: bool) -> None:
        run(queue.block_domain(host, 10) if blocked else queue.unblock_domain(host))
        self.blocked[host] = self.clock.seconds + 10 if blocked else 0.0
        self._claim(jobs.FETCH_LANES)

    @invariant()
    def redis_agrees_with_the_model_and_with_itself(self) -> None:
        hashes, sets, number_queued = read_frontier(self.servers)
        self._every_job_is_in_one_place(hashes, sets, number_queued)
        self._what_is_left_is_known(hashes, sets)
        for host, egress in EGRESS.items():
            fields = hashes.get(f"domain:{scope_via(host, egress)}", {})
            self._counts_agree(host, fields, hashes, sets)
            for lane in jobs.FETCH_LANES:
                lines = [name for name in sets if name.startswith((f"due:{lane}:", f"waiting:{lane}:"))]
                places = [f"fetch:{{0}}:{name}" for name in lines if scope_via(host, egress) in sets[name]]
                assert places == [place for place in [fields.get(f"at_{lane}", "")] if place]
                assert all(place.endswith(scope_via("", egress)) for place in places)
            self._moves_with_its_part(host, fields)
        for name in {name.partition(":")[2] for name in sets if name.startswith(("due:", "short:"))}:
            assert sorted(sets.get(f"due:{name}", [])) == sorted(sets.get(f"short:{name}", []))

    def _moves_with_its_part(self, host: str, fields: dict[str, str]) -> None:
        """A domain that stands in lines of a fetcher is noted by its part, also while the part moves."""
        scope, state = scope_via(host, EGRESS[host]), self.servers.state.client
        part = part_of(fields.get("lent", "").encode(), host)
        stands = any(re.search(":[123]:", fields.get(f"at_{lane}", "")) for lane in jobs.FETCH_LANES)
        noted = state.sismember(f"fetch:{{0}}:standing:{part}", scope)
        moves = state.sismember(f"fetch:{{0}}:moving:{part}", scope)
        assert not stands or noted or moves
        assert stands or not noted
        assert not moves or state.sismember("fetch:{0}:moved", part)

    def _every_job_is_in_one_place(self, hashes: Hashes, sets: Sets, number_queued: int) -> None:
        names = [f"https://{name}" for name in self.jobs]
        assert {name for name in hashes if name.startswith("job:")} == {f"job:{name}" for name in names}
        queued = [key for name, keys in sets.items() if name.startswith("jobs:") for key in keys]
        later = sets.get("later", [])
        assert sorted([*queued, *later, *sets.get("leases", []), *sets.get("doomed", [])]) == sorted(names)
        assert number_queued == len(queued) + len(later)

    def _what_is_left_is_known(self, hashes: Hashes, sets: Sets) -> None:
        for lane in jobs.FETCH_LANES:
            lines = [keys for name, keys in sets.items() if name.startswith("jobs:") and f":{lane}:" in name]
            queued = [key for keys in lines for key in keys]
            total = sum(float(hashes[f"job:{key}"]["expected"]) for key in queued)
            assert float(hashes.get("left", {}).get(lane, 0)) == pytest.approx(total)

    def _counts_agree(self, host: str, fields: dict[str, str], hashes: Hashes, sets: Sets) -> None:
        of_host = [one for name, one in hashes.items() if name.startswith(f"job:https://{host}/")]
        running = [one for one in of_host if one["state"] == "running"]
        assert int(float(fields.get("in_flight", 0))) == len(running)
        assert int(float(fields.get("slow_in_flight", 0))) == sum(one["lane"] == "slow" for one in running)
        for lane in jobs.FETCH_LANES:
            total = 0.0
            for priority in map(int, jobs.JobPriority):
                waiting = sets.get(f"jobs:{scope_via(host, EGRESS[host])}:{lane}:{priority}", [])
                total += sum(float(hashes[f"job:{key}"].get("expected") or 0) for key in waiting)
                assert int(float(fields.get(f"{lane}_{priority}", 0))) == len(waiting)
            assert float(fields.get(f"sum_{lane}", 0)) == pytest.approx(total)


@pytest.mark.usefixtures("servers")
def test_the_frontier_keeps_its_promises_in_any_order(
    servers: RedisServers, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tight = Politeness(retry_budget=2, failures_to_open=2, outage_hosts=2)
    monkeypatch.setattr(queue, "configured_politeness", cache(lambda: tight))
    Frontier.servers, Frontier.clock = servers, clock
    run_state_machine_as_test(
        Frontier,
        settings=settings(
            max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
