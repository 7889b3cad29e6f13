"""The frontier: order, bounds and time; and random interleavings against a model."""

from dataclasses import dataclass, replace
from functools import cache

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
from pytest_django import Settings

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import (
    FETCH_LANES,
    BacklogFull,
    ClaimedJob,
    DeadJob,
    DomainLimits,
    FetchLane,
    JobEnded,
    JobEnqueued,
    JobHeld,
    JobJoined,
    JobLost,
    JobPriority,
    JobRequeued,
    MoreWaiters,
    NoRetryBudget,
    NothingDue,
    RateVerdict,
    RequestReport,
    Waiter,
)
from resources.fetch.frontier.politeness import Politeness
from resources.fetch.frontier.queue import AfterReport, EndJob, HoldJob, PutJobBack, RetryJob
from resources.fetch.http.limit_scopes import scope_via
from retry import stores
from tests.conftest import RedisServers
from tests.support.frontier import HOST, OK, UNSENT, claim, claimed, dead_job, enqueue, idle, job, record, report
from tests.support.frontier_clock import Clock

run = stores.run_steps
HOSTS = ["a.example.com", "b.example.com"]
EGRESS = {"a.example.com": "", "b.example.com": "x"}
NAMES = [f"{host}/{name}" for host in HOSTS for name in "1234"]
MOST_IN_FLIGHT = 8


def text(name: object) -> str:
    assert isinstance(name, bytes)
    return name.decode()


@dataclass(slots=True)
class Known:
    """The model's record of one job: the ids of its waiters, and its holder's claim."""

    waiters: set[str]
    state: str = "waiting"
    claim: ClaimedJob | None = None
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
        self.old: list[ClaimedJob] = []
        self.blocked: dict[str, float] = dict.fromkeys(HOSTS, 0.0)
        self.caps: dict[str, int] = {}
        self.robots: dict[str, float] = dict.fromkeys(HOSTS, 0.0)
        self.paused: set[str] = set()
        self.ids = 0

    @rule(
        name=st.sampled_from(NAMES),
        priority=st.sampled_from(JobPriority),
        lane=st.sampled_from(FETCH_LANES),
        later=st.sampled_from([0.0, 0.0, 5.0]),
        expires=st.sampled_from([None, None, 20.0]),
        obeys=st.booleans(),
    )
    def enqueue(
        self, *, name: str, priority: JobPriority, lane: FetchLane, later: float, expires: float | None, obeys: bool
    ) -> None:
        self.ids += 1
        host, _, path = name.partition("/")
        waiter = Waiter(f"waiter-{self.ids}")
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
            assert isinstance(found, JobJoined)
            self.jobs[name].waiters.add(waiter.id)
        else:
            assert isinstance(found, JobEnqueued)
            self.jobs[name] = Known({waiter.id})

    @rule(lanes=st.sampled_from([FETCH_LANES, ("fast",), ("slow",)]))
    def claim(self, lanes: tuple[FetchLane, ...]) -> None:
        self._claim(lanes)

    def _claim(self, lanes: tuple[FetchLane, ...]) -> None:
        found = claim(*lanes)
        if isinstance(found, NothingDue):
            assert found.wait_seconds <= 60
            return
        held = found.job if isinstance(found, DeadJob) else found
        name = held.url.removeprefix("https://")
        known = self.jobs[name]
        assert known.state == "waiting" or self.clock.seconds >= known.leased_until, "claimed twice"
        assert {waiter.id for waiter in held.waiters} == known.waiters
        if known.claim:
            assert held.token > known.claim.token
            self.old.append(known.claim)
        known.claim, known.leased_until = held, self.clock.seconds + 15
        known.state = "ending" if isinstance(found, DeadJob) else "running"
        known.told = len(known.waiters)
        if isinstance(found, ClaimedJob):
            assert held.lane in lanes
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
        verdict=st.sampled_from(RateVerdict),
        then=st.sampled_from(["end", "hold", "again", "back"]),
        asked=st.sampled_from([0.0, 30.0]),
    )
    def report(self, data: st.DataObject, verdict: RateVerdict, then: str, asked: float) -> None:
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
        found = report(claim, RequestReport(verdict, 0.1, "x", asked), steps[then])
        if verdict is RateVerdict.THROTTLED:
            self.blocked[claim.host] = max(self.blocked[claim.host], self.clock.seconds + asked)
        match found:
            case JobRequeued():
                assert then in {"again", "back"} or verdict in {
                    RateVerdict.THROTTLED,
                    RateVerdict.UNREACHABLE,
                    RateVerdict.AWAY,
                }
                known.state = "waiting"
            case JobHeld():
                assert then == "hold"
                known.state = "holding"
            case NoRetryBudget():
                assert then == "again"
                known.state = "holding"
            case JobEnded():
                assert then == "end"
                assert known.told == len(known.waiters), "ended behind somebody's back"
                del self.jobs[name]
            case MoreWaiters(_, waiters):
                assert {waiter.id for waiter in waiters} == known.waiters
                assert known.told < len(known.waiters)
                known.state = "holding"
            case JobLost():
                raise AssertionError("lost a lease that was in force")
        self.old.append(claim)

    @precondition(lambda self: self._held("holding", "ending"))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self._held("holding", "ending")))
        known = self.jobs[name]
        assert known.claim
        found = run(queue.finish_job(known.claim))
        while isinstance(found, MoreWaiters):
            assert {waiter.id for waiter in found.waiters} == known.waiters
            found = run(queue.finish_job(known.claim, found.version))
        assert found == JobEnded()
        del self.jobs[name]

    @precondition(lambda self: self.old)
    @rule(data=st.data())
    def somebody_reports_late(self, data: st.DataObject) -> None:
        """A fetcher that lost a job changes nothing."""
        claim = data.draw(st.sampled_from(self.old))
        known = self.jobs.get(claim.url.removeprefix("https://"))
        if known and known.claim is claim:
            return  # still its own
        assert report(claim) == JobLost()
        assert run(queue.finish_job(claim)) == JobLost()
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
            if name not in held:
                one.state = "waiting"

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), lane=st.sampled_from(FETCH_LANES), priority=st.sampled_from(JobPriority))
    def move(self, data: st.DataObject, lane: FetchLane, priority: JobPriority) -> None:
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
        run(queue.set_limits(host, DomainLimits(delay_seconds=0.1, in_flight=cap, paused=paused)))
        self.caps.pop(host, None)
        if cap:
            self.caps[host] = max(cap, self._in_flight(host))  # requests in flight are not called back
        (self.paused.add if paused else self.paused.discard)(host)

    @rule(host=st.sampled_from(HOSTS), blocked=st.booleans())
    def block_or_unblock(self, host: str, blocked: bool) -> None:
        run(queue.block_domain(host, 10) if blocked else queue.unblock_domain(host))
        self.blocked[host] = self.clock.seconds + 10 if blocked else 0.0
        self._claim(FETCH_LANES)

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
            scope = scope_via(host, EGRESS[host])
            fields = record(scope)
            running = [
                key for key in state.keys(f"fetch:job:https://{host}/*") if state.hget(key, "state") == b"running"
            ]
            assert int(float(fields.get("in_flight", 0))) == len(running)
            slow = sum(state.hget(key, "lane") == b"slow" for key in running)
            assert int(float(fields.get("slow_in_flight", 0))) == slow
            for lane in FETCH_LANES:
                total = 0.0
                for priority in JobPriority:
                    name = f"fetch:jobs:{scope}:{lane}:{int(priority)}"
                    waiting = map(text, state.zrange(name, 0, -1))
                    total += sum(float(state.hget(f"fetch:job:{key}", "expected") or 0) for key in waiting)
                    assert int(float(fields.get(f"{lane}_{int(priority)}", 0))) == state.zcard(name)
                assert float(fields.get(f"sum_{lane}", 0)) == pytest.approx(total)

    @invariant()
    def a_host_stands_in_one_place_of_each_line_or_in_none(self) -> None:
        state = self.servers.state.client
        for host, egress in EGRESS.items():
            scope = scope_via(host, egress)
            for lane in FETCH_LANES:
                places = [
                    text(key)
                    for line in ("due", "waiting")
                    for key in state.keys(f"fetch:{line}:{lane}:*")
                    if state.zscore(key, scope) is not None
                ]
                assert places == [place for place in [record(scope).get(f"at_{lane}", "")] if place]
                assert all(place.endswith(scope_via("", egress)) for place in places)


@pytest.mark.usefixtures("servers")
def test_the_frontier_keeps_its_promises_in_any_order(
    servers: RedisServers, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tight = Politeness(retry_budget=2, failures_to_open=2, outage_hosts=2)
    monkeypatch.setattr(queue, "configured_politeness", cache(lambda: tight))  # its cache is cleared as settings change
    Frontier.servers, Frontier.clock = servers, clock
    run_state_machine_as_test(
        Frontier,
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def urls(number: int, clock: Clock) -> list[str]:
    """The next so many, each claimed and done as soon as it is due."""
    found = []
    for _ in range(number):
        while isinstance(nothing := claim(), NothingDue):
            clock.pass_by(nothing.wait_seconds)
        assert isinstance(nothing, ClaimedJob)
        report(nothing)
        found.append(nothing.url.removeprefix("https://"))
    return found


def test_requests_to_one_host_keep_their_distance(clock: Clock) -> None:
    enqueue(job("1"), job("2"))
    claimed()
    wait = idle()
    assert 0.45 <= wait <= 0.551
    clock.pass_by(wait - 0.01)
    idle()
    clock.pass_by(0.01)
    claimed()


def test_the_distance_is_another_each_time_by_a_tenth_at_the_most(clock: Clock) -> None:
    run(queue.set_limits(HOST, DomainLimits(delay_seconds=1)))
    enqueue(*(job(str(number)) for number in range(20)))
    waits = []
    for _ in range(20):
        report(claimed())
        waits.append(idle())
        clock.pass_by(waits[-1])
    assert 0.9 <= min(waits[:-1]) < 0.95
    assert 1.05 < max(waits[:-1]) <= 1.101


def test_who_has_found_something_does_not_sleep_any_more(clock: Clock, servers: RedisServers) -> None:
    idle()
    assert servers.state.client.zcard("fetch:idle") == 1
    enqueue(job())
    claimed()
    assert servers.state.client.zcard("fetch:idle") == 0  # no fetcher has to be woken


def test_no_more_are_in_flight_than_the_cap(clock: Clock) -> None:
    enqueue(*(job(str(number)) for number in range(4)))
    first = claimed()
    clock.pass_by(1)
    claimed()
    clock.pass_by(9)
    idle()
    report(first)
    claimed()


def test_a_host_that_is_busy_makes_no_other_wait(clock: Clock) -> None:
    enqueue(*(job(str(number)) for number in range(3)), job("1", "b.example.com"))
    assert {claimed().host, claimed().host} == {HOST, "b.example.com"}


def test_first_in_is_first_out(clock: Clock) -> None:
    enqueue(*(job(str(number)) for number in range(5)))
    assert urls(5, clock) == [f"{HOST}/{number}" for number in range(5)]


def test_interactive_comes_before_flagged_and_that_before_the_rest(clock: Clock) -> None:
    enqueue(
        job("1", expected_seconds=99),
        job("1", "b.example.com", priority=JobPriority.FLAGGED),
        job("1", "c.example.com", priority=JobPriority.INTERACTIVE),
        job("2", priority=JobPriority.INTERACTIVE),
    )
    found = urls(4, clock)
    assert set(found[:2]) == {"c.example.com/1", f"{HOST}/2"}
    assert found[2:] == ["b.example.com/1", f"{HOST}/1"]


def test_among_equals_the_host_with_the_most_left_comes_first(clock: Clock) -> None:
    enqueue(job("1", expected_seconds=3))
    enqueue(*(job(str(number), "b.example.com", expected_seconds=2) for number in range(3)))
    enqueue(job("1", "c.example.com", expected_seconds=5))
    assert [claimed().host for _ in range(3)] == ["b.example.com", "c.example.com", HOST]


def test_a_url_that_expires_soon_comes_first_and_the_soonest_of_them(clock: Clock) -> None:
    enqueue(job("1"), job("2", expires_at=clock.unix + 600), job("3", expires_at=clock.unix + 300))
    enqueue(job("4", expires_at=clock.unix + 86_400))
    assert urls(4, clock) == [f"{HOST}/{name}" for name in "3214"]


def test_an_expired_url_fails_without_a_request(clock: Clock) -> None:
    enqueue(job("1", expires_at=clock.unix + 10))
    run(queue.block_domain(HOST, 3600))
    clock.pass_by(9)
    assert idle() == pytest.approx(1, abs=0.01)
    clock.pass_by(1.001)
    found = dead_job()
    assert (found.why, found.job.url) == ("expired", f"https://{HOST}/1")
    assert run(queue.finish_job(found.job)) == JobEnded()
    assert "in_flight" not in record()


def test_a_job_that_is_to_wait_is_not_claimed_before(clock: Clock) -> None:
    enqueue(job("1", not_before_seconds=30))
    assert idle() == pytest.approx(30, abs=0.01)
    clock.pass_by(30.001)
    claimed()


def test_who_waits_for_a_queued_job_moves_it_forward(clock: Clock) -> None:
    enqueue(job("1"), job("2"), job("2", priority=JobPriority.INTERACTIVE))
    assert urls(2, clock) == [f"{HOST}/2", f"{HOST}/1"]


def test_a_later_request_never_moves_a_job_back(clock: Clock) -> None:
    enqueue(job("1", priority=JobPriority.FLAGGED), job("2"), job("1"))
    assert urls(1, clock) == [f"{HOST}/1"]


def test_a_domains_backlog_is_bounded_and_its_end_is_kept_for_who_waits(clock: Clock, settings: Settings) -> None:
    settings.FETCH_DOMAIN_BACKLOG = 10
    for number in range(9):
        assert isinstance(enqueue(job(str(number))), JobEnqueued)
    full = enqueue(job("9"))
    assert full == BacklogFull(4.5)
    assert isinstance(enqueue(job("9", priority=JobPriority.INTERACTIVE)), JobEnqueued)
    assert isinstance(enqueue(job("10", priority=JobPriority.INTERACTIVE)), BacklogFull)
    assert isinstance(enqueue(job("1", "b.example.com")), JobEnqueued)
    assert isinstance(enqueue(job("0")), JobJoined)


def test_the_backlog_of_all_domains_is_bounded(clock: Clock, settings: Settings) -> None:
    settings.FETCH_BACKLOG = 10
    found = [enqueue(job("1", f"{number}.example.com")) for number in range(12)]
    assert [isinstance(one, JobEnqueued) for one in found] == [True] * 9 + [False] * 3


def test_fast_and_slow_are_claimed_apart(clock: Clock) -> None:
    enqueue(job("1", lane="slow"), job("1", "b.example.com"))
    assert claimed("slow").host == HOST
    idle("slow")
    assert claimed("fast").host == "b.example.com"


def test_slow_requests_leave_room_for_a_fast_one(clock: Clock) -> None:
    enqueue(*(job(str(number), lane="slow") for number in range(3)))
    claimed("slow")
    clock.pass_by(5)
    idle("slow")
    enqueue(job("fast"))
    assert claimed("fast").url.endswith("/fast")


def test_a_request_that_turns_out_slow_gives_the_fast_lanes_room_back(clock: Clock) -> None:
    enqueue(*(job(str(number), lane="slow") for number in range(2)), job("fast"))
    moved = claimed("fast")
    assert run(queue.move_job(moved.key, "slow"))
    clock.pass_by(5)
    idle("slow")
    report(moved)
    claimed("slow")


def test_a_job_that_was_found_slow_stays_so(clock: Clock) -> None:
    enqueue(job("1"))
    assert run(queue.move_job(job("1").key, "slow"))
    enqueue(job("1", priority=JobPriority.INTERACTIVE))
    idle("fast")
    assert claimed("slow").priority is JobPriority.INTERACTIVE


def test_a_request_that_was_not_sent_gives_its_turn_back(clock: Clock) -> None:
    enqueue(job("1"), job("2"))
    report(claimed(), UNSENT)
    claimed()


def test_a_retry_waits_and_keeps_count(clock: Clock) -> None:
    enqueue(job("1"))
    assert report(claimed(), OK, RetryJob(20)) == JobRequeued(20)
    clock.pass_by(19)
    idle()
    clock.pass_by(1.1)
    assert claimed().attempts == 1


def test_a_removed_job_is_not_claimed(clock: Clock) -> None:
    enqueue(job("1"), job("2", not_before_seconds=5), job("3", expires_at=clock.unix + 9))
    assert [run(queue.withdraw_waiter(job(name).key)) for name in "1231"] == ["removed"] * 3 + ["unknown"]
    clock.pass_by(60)
    assert idle() == 60
    held_by_others = job("4", waiter=Waiter("a"))
    enqueue(held_by_others, job("4", waiter=Waiter("b")))
    assert run(queue.withdraw_waiter(held_by_others.key, "a")) == "kept"
    assert claimed().waiters == (Waiter("b"),)
    assert run(queue.withdraw_waiter(held_by_others.key)) == "in_flight"


def test_jobs_that_are_done_leave_only_what_was_learnt(clock: Clock, servers: RedisServers) -> None:
    enqueue(job("1", expires_at=clock.unix + 600), job("2", lane="slow"), job("3", not_before_seconds=1))
    for _ in range(3):
        clock.pass_by(2)
        report(claimed())
    left = set(servers.state.client.keys("fetch:*"))
    assert left == {
        *(f"fetch:domain:{HOST}".encode(), b"fetch:domains"),
        *(b"fetch:clock", b"fetch:queued", b"fetch:token"),
    }
    assert servers.state.client.get("fetch:queued") == b"0"


def test_what_was_learnt_is_kept_for_a_month_and_what_an_admin_has_set_for_good(
    clock: Clock, servers: RedisServers
) -> None:
    name, almost_a_month = f"fetch:domain:{HOST}", 29 * 86400
    enqueue(job("1"), job("2"))
    claimed()
    assert servers.state.client.ttl(name) > almost_a_month
    run(queue.set_limits(HOST, DomainLimits(in_flight=2)))
    assert servers.state.client.ttl(name) == -1
    run(queue.set_limits(HOST, DomainLimits()))
    assert servers.state.client.ttl(name) > almost_a_month
    servers.state.client.expire(name, 1000)
    clock.pass_by(3600)
    claimed()
    assert servers.state.client.ttl(name) > almost_a_month


def test_those_that_became_due_come_in_turn_with_those_that_were(clock: Clock) -> None:
    enqueue(*(job(str(number), f"{host}.example.com") for host in "abc" for number in range(ord(host) - 96)))
    assert claimed().host == "c.example.com"  # the most is left there; the others stay due
    clock.pass_by(1)
    enqueue(job("4", "c.example.com"), job("5", "c.example.com"), job("6", "c.example.com"))
    found = run(queue.claim_jobs("w", "m", 3, {"fast": 3}))
    assert [one.host for one in found if isinstance(one, ClaimedJob)] == [f"{host}.example.com" for host in "cba"]
    assert isinstance(claim(), NothingDue)
