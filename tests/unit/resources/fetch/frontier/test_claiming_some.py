"""Several jobs in one claim: as many as there is room for, in the order of single claims."""

import pytest

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import ClaimedJob, DeadJob, DomainLimits, FetchLane, JobPriority, NothingDue
from retry import stores
from tests.support.frontier import HOST, OK, claimed, enqueue, idle, job, record, report
from tests.support.frontier_clock import Clock


def claim_some(most: int = 10, **rooms: int) -> list[ClaimedJob | DeadJob | NothingDue]:
    lanes: dict[FetchLane, int] = {"fast": rooms.get("fast", 10), "slow": rooms.get("slow", 10)}
    return stores.run_steps(queue.claim_jobs("w", "m", most, lanes))


def urls(found: list[ClaimedJob | DeadJob | NothingDue]) -> list[str]:
    return [one.url.rpartition("/")[2] for one in found if isinstance(one, ClaimedJob)]


def test_all_that_is_due_is_handed_out_and_then_nothing_is(clock: Clock) -> None:
    enqueue(job("ordinary", "a.example.com"), job("flagged", "b.example.com", priority=JobPriority.FLAGGED))
    enqueue(job("first", "c.example.com", priority=JobPriority.INTERACTIVE), job("second", "c.example.com"))
    found = claim_some()
    assert urls(found) == ["first", "flagged", "ordinary"]
    assert isinstance(found[-1], NothingDue)
    assert 0.4 < found[-1].wait_seconds < 0.6  # the turn of the second
    assert len({one.token for one in found if isinstance(one, ClaimedJob)}) == 3
    clock.pass_by(0.6)
    assert urls(claim_some()) == ["second"]


def test_no_more_are_handed_out_than_asked_for_and_nothing_is_said_of_the_rest(clock: Clock) -> None:
    enqueue(*(job(str(number), f"{number}.example.com") for number in range(4)))
    found = claim_some(most=3)
    assert len(urls(found)) == len(found) == 3
    assert len(urls(claim_some(most=3))) == 1


@pytest.mark.parametrize(("room", "handed_out"), [(1, 1), (2, 2), (5, 3)])
def test_a_lane_gives_as_many_as_there_is_room_in_it(clock: Clock, room: int, handed_out: int) -> None:
    enqueue(*(job(f"slow-{number}", f"{number}.example.com", lane="slow") for number in range(3)))
    enqueue(job("fast", "fast.example.com"))
    found = claim_some(slow=room)
    assert "fast" in urls(found)
    assert sum(url.startswith("slow") for url in urls(found)) == handed_out
    assert isinstance(found[-1], NothingDue) is (room > handed_out)  # the due jobs of a full lane are unknown


def test_a_domain_is_written_as_single_claims_write_it(clock: Clock) -> None:
    enqueue(job("1"), job("2", "b.example.com"))
    assert len(urls(claim_some())) == 2
    kept = record()
    assert (kept["in_flight"], kept.get("fast_3", "0")) == ("1", "0")
    enqueue(job("3"))
    assert 0.4 < idle() < 0.6
    clock.pass_by(0.6)
    report(claimed(), OK)
    assert record()["in_flight"] == "1"


def test_what_is_to_fail_comes_first_and_takes_room_too(clock: Clock) -> None:
    enqueue(*(job(f"old-{number}", expires_at=clock.unix + 1) for number in range(2)))
    clock.pass_by(2)
    enqueue(job("new", "b.example.com"))
    found = claim_some(most=2)
    assert [one.why for one in found if isinstance(one, DeadJob)] == ["expired", "expired"]
    assert urls(claim_some()) == ["new"]


@pytest.mark.parametrize("lane", ["fast", "slow"])
def test_a_domain_whose_time_has_come_gives_all_that_it_has_room_for(clock: Clock, lane: FetchLane) -> None:
    stores.run_steps(queue.set_limits(HOST, DomainLimits(delay_seconds=0, in_flight=8)))
    stores.run_steps(queue.block_domain(HOST, 5))
    enqueue(*(job(priority.name, priority=priority, lane=lane) for priority in JobPriority))
    assert idle() == 5
    clock.pass_by(5)
    assert urls(claim_some()) == ["INTERACTIVE", "FLAGGED", "ORDINARY"]


def test_a_domain_is_still_due_after_a_job_that_has_just_expired(clock: Clock) -> None:
    stores.run_steps(queue.set_limits(HOST, DomainLimits(delay_seconds=0, in_flight=8)))
    stores.run_steps(queue.block_domain(HOST, 5))
    enqueue(job("other", "b.example.com"), job("now"))
    enqueue(job("old", priority=JobPriority.FLAGGED, expires_at=clock.unix + 5))
    enqueue(*(job("older", f"{number}.example.com", expires_at=clock.unix + 4) for number in range(16)))
    clock.pass_by(5)
    found = claim_some(most=40, fast=40)  # which reaps the 16 that have expired first
    assert [one.job.host for one in found if isinstance(one, DeadJob)].count(HOST) == 0
    assert urls(found) == ["other", "now"]
    assert found[-1] == NothingDue(0)
    [failed, *_] = claim_some()
    assert isinstance(failed, DeadJob)
    assert failed.job.host == HOST
