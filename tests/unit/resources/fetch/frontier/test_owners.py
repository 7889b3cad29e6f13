"""Owners: the spread of domains over fetchers, and hand-over when fetchers and networks come and go."""

from collections import Counter
from collections.abc import Sequence

import pytest
from pytest_django import Settings

from resources.fetch.frontier import jobs, queue
from resources.fetch.frontier.jobs import ClaimedJob, DomainLimits, NothingDue, RateVerdict, RequestReport
from retry import stores
from tests.conftest import RedisServers
from tests.support.frontier import HOST, OK, backlog, claim, claimed, enqueue, idle, job, record, report
from tests.support.frontier_clock import Clock

pytestmark = pytest.mark.usefixtures("clock")
run = stores.run_steps

PARTS = 64
AWAY = RequestReport(RateVerdict.AWAY)
HOSTS = [f"{number}.example.com" for number in range(40)]
LEASE_SECONDS = 15
TRY_SECONDS = 2.1
MACHINES = ["here", "there", "yonder", "far", "near"]


def name_of(machine: str) -> str:
    return f"{machine}:w"


def sign_in(*machines: str) -> None:
    for machine in machines:
        run(queue.sign_in_fetcher(name_of(machine)))


def owners(servers: RedisServers) -> dict[str, str]:
    """The machine of the owner of each part."""
    flat = [text for pair in servers.state.client.hgetall("fetch:{0}:owners").items() for text in pair]
    found = jobs.parse_fields(flat)
    return {part: owner.partition(":")[0] for part, owner in found.items() if part.isdigit()}


def owner_of(host: str, egress: str = "") -> str:
    scope = f"{host} via {egress}" if egress else host
    return run(queue.read_surroundings(egress, scope)).owner.partition(":")[0]


def claim_all(machine: str) -> list[ClaimedJob]:
    """All that is due for it."""
    found = []
    while True:
        one = claim(machine=machine)
        if isinstance(one, ClaimedJob):
            found.append(one)
        elif isinstance(one, NothingDue) and one.wait_seconds > 0:
            return found


def hosts_of(found: Sequence[ClaimedJob]) -> set[str]:
    return {held.host for held in found}


@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_the_parts_are_spread_over_the_fetchers(number: int) -> None:
    sign_in(*MACHINES[:number])
    counts = run(queue.read_owned_parts())
    assert set(counts) == {name_of(machine) for machine in MACHINES[:number]}
    assert sum(counts.values()) == PARTS
    assert all(0.5 <= count * number / PARTS <= 1.6 for count in counts.values()), counts


def test_a_fetcher_that_comes_takes_parts_and_moves_no_others(servers: RedisServers) -> None:
    sign_in("here", "there")
    before = owners(servers)
    sign_in("yonder")
    after = owners(servers)
    moved = [part for part, owner in after.items() if owner != before[part]]
    assert {after[part] for part in moved} == {"yonder"}
    assert {before[part] for part in moved} == {"here", "there"}


def test_a_fetcher_that_goes_leaves_its_parts_and_moves_no_others(servers: RedisServers) -> None:
    sign_in("here", "there", "yonder")
    before = owners(servers)
    run(queue.sign_out_fetcher(name_of("yonder")))
    after = owners(servers)
    assert {before[part] for part, owner in after.items() if owner != before[part]} == {"yonder"}
    assert set(after.values()) == {"here", "there"}


def test_the_first_fetcher_claims_at_once_what_waited_for_one(servers: RedisServers) -> None:
    enqueue(*(job(host=host) for host in HOSTS))
    assert run(queue.read_owned_parts()) == {}
    assert hosts_of([claimed(machine="here") for _ in HOSTS]) == set(HOSTS)
    assert run(queue.read_owned_parts()) == {name_of("here"): PARTS}
    assert not servers.state.client.keys("fetch:{0}:standing:*")


def test_a_domain_that_a_version_without_owners_has_placed_is_claimed(servers: RedisServers) -> None:
    sign_in("here")
    enqueue(job())
    state = servers.state.client
    for kind in ("due", "short"):
        state.rename(f"fetch:{{0}}:{kind}:fast:3:{name_of('here')}", f"fetch:{{0}}:{kind}:fast:3")
    state.hset(f"fetch:{{0}}:domain:{HOST}", "at_fast", "fetch:{0}:due:fast:3")
    assert claimed(machine="here").host == HOST
    assert not state.keys("fetch:{0}:due:*") + state.keys("fetch:{0}:short:*") + state.keys("fetch:{0}:standing:*")


def test_each_domain_is_claimed_by_its_owner_alone() -> None:
    sign_in("here", "there")
    enqueue(*(job(host=host) for host in HOSTS))
    found = {machine: hosts_of(claim_all(machine)) for machine in ("here", "there")}
    assert all(found.values())
    assert found == {machine: {host for host in HOSTS if owner_of(host) == machine} for machine in found}


def test_no_job_is_claimed_twice_and_none_is_left_behind_when_a_fetcher_comes() -> None:
    sign_in("here")
    enqueue(*(job(name, host) for host in HOSTS for name in "12"))
    found = [claimed(machine="here") for _ in HOSTS[:10]]
    sign_in("there")
    of_here, of_there = claim_all("here"), claim_all("there")
    assert {owner_of(held.host) for held in of_here} == {"here"}
    assert {owner_of(held.host) for held in of_there} == {"there"}
    assert Counter(held.host for held in (*found, *of_here, *of_there)) == Counter(HOSTS)


def test_requests_in_flight_of_an_earlier_owner_count() -> None:
    sign_in("here")
    run(queue.set_limits(HOST, DomainLimits(delay_seconds=0, in_flight=1)))
    backlog()
    held = claimed(machine="here")
    sign_in("there", "yonder", "far")
    run(queue.sign_out_fetcher(name_of("here")))
    machine = owner_of(HOST)
    assert isinstance(claim(machine=machine), NothingDue)
    assert report(held, machine="here") == jobs.JobEnded()
    assert claimed(machine=machine).host == HOST


def test_domains_are_moved_a_few_at_a_time(servers: RedisServers) -> None:
    hosts = [f"{number}.example.org" for number in range(400)]
    sign_in("here")
    enqueue(*(job(host=host) for host in hosts))
    sign_in("there")
    of_there = {host for host in hosts if owner_of(host) == "there"}
    assert len(of_there) > 100
    first = claim(machine="there")
    assert isinstance(first, ClaimedJob)
    assert 0 < servers.state.client.zcard(f"fetch:{{0}}:due:fast:3:{name_of('there')}") < 100
    assert hosts_of(claim_all("here")) == set(hosts) - of_there, "it claims none that is not moved yet"
    assert hosts_of([first, *claim_all("there")]) == of_there
    assert not servers.state.client.keys("fetch:{0}:mov*")


def test_a_domain_that_is_moved_keeps_its_place_among_short_jobs(clock: Clock, servers: RedisServers) -> None:
    sign_in("here")
    enqueue(job())
    placed = servers.state.client.zscore(f"fetch:{{0}}:short:fast:3:{name_of('here')}", HOST)
    clock.pass_by(5)
    sign_in("there")
    run(queue.sign_out_fetcher(name_of("here")))
    queue_of_others = claim("slow", machine="there")  # it moves a few before it looks
    assert isinstance(queue_of_others, NothingDue)
    assert servers.state.client.zscore(f"fetch:{{0}}:short:fast:3:{name_of('there')}", HOST) == placed


def test_a_killed_fetchers_domains_are_others_when_its_sign_in_lapses(clock: Clock) -> None:
    assert isinstance(claim(machine="dead"), NothingDue)  # it sleeps, and is killed
    clock.pass_by(1)
    sign_in("here")
    enqueue(*(job(host=host) for host in HOSTS))
    found = claim_all("here")
    assert 0 < len(found) < len(HOSTS)
    waits = claim(machine="here")
    assert isinstance(waits, NothingDue)
    assert waits.wait_seconds == pytest.approx(LEASE_SECONDS - 1, abs=0.01)
    for held in found:
        report(held, machine="here")
    clock.pass_by(waits.wait_seconds)
    assert hosts_of([*found, *claim_all("here")]) == set(HOSTS)
    assert run(queue.read_owned_parts()) == {name_of("here"): PARTS}


@pytest.fixture
def lent(clock: Clock) -> ClaimedJob:
    """The first of three jobs of a domain: its owner had no slot for it for a while."""
    sign_in("here")
    assert isinstance(claim(machine="there"), NothingDue)
    host = next(host for host in HOSTS if owner_of(host) == "here")
    enqueue(*(job(name, host) for name in "123"))
    waits = claim(machine="there")
    assert isinstance(waits, NothingDue)
    clock.pass_by(waits.wait_seconds)
    held = claimed(machine="there")
    assert (held.host, owner_of(host)) == (host, "there")
    return held


def test_a_domain_that_waits_for_a_slot_is_lent_until_its_jobs_are_done(clock: Clock, lent: ClaimedJob) -> None:
    for _ in "23":
        clock.pass_by(0.6)
        assert isinstance(claim(machine="here"), NothingDue), "it is another's for now"
        report(lent, machine="there")
        lent = claimed(machine="there")
    report(lent, machine="there")
    assert owner_of(lent.host) == "here"
    enqueue(job("4", lent.host))
    clock.pass_by(0.6)
    assert claimed(machine="here").host == lent.host


@pytest.mark.parametrize("how", ["it ends", "its network is away"])
def test_a_loan_ends_with_its_fetcher(clock: Clock, lent: ClaimedJob, how: str) -> None:
    if how == "it ends":
        report(lent, machine="there")
        run(queue.sign_out_fetcher(name_of("there")))
    else:
        report(lent, AWAY, machine="there")
    clock.pass_by(0.6)
    assert claimed(machine="here").host == lent.host
    assert owner_of(lent.host) == "here"


def test_a_domain_with_a_request_in_flight_is_not_lent(clock: Clock) -> None:
    sign_in("here")
    assert isinstance(claim(machine="there"), NothingDue)
    host = next(host for host in HOSTS if owner_of(host) == "here")
    enqueue(*(job(name, host) for name in "12"))
    held = claimed(machine="here")
    clock.pass_by(5)
    assert isinstance(claim(machine="there"), NothingDue)
    report(held, machine="here")
    clock.pass_by(1.1)
    assert claimed(machine="there").host == host


def test_a_domain_is_not_lent_to_a_machine_without_its_egress(clock: Clock, settings: Settings) -> None:
    settings.FETCH_EGRESS = ["a=192.0.2.1"]
    sign_in("here")
    enqueue(job(egress="a"))
    settings.FETCH_EGRESS = []
    for _ in "12":
        assert isinstance(claim(machine="there"), NothingDue)
        clock.pass_by(2)
    assert owner_of(HOST, "a") == "here"
    assert record(f"{HOST} via a").get("lent", "") == ""


def test_a_domain_of_a_fetcher_that_sleeps_is_not_lent(clock: Clock) -> None:
    assert isinstance(claim(machine="there"), NothingDue)
    assert isinstance(claim(machine="here"), NothingDue)
    enqueue(*(job(host=host) for host in HOSTS))
    clock.pass_by(2)
    assert hosts_of(claim_all("there")) == {host for host in HOSTS if owner_of(host) == "there"}


def test_a_machine_whose_network_is_away_gives_its_domains_up_and_gets_them_back(clock: Clock) -> None:
    sign_in("here", "there")
    enqueue(*(job(name, host) for host in HOSTS for name in "123"))
    put_back = claimed(machine="here")
    report(put_back, AWAY, machine="here")
    assert run(queue.read_owned_parts()) == {name_of("here"): 0, name_of("there"): PARTS}
    assert hosts_of(claim_all("there")) == set(HOSTS) - {put_back.host}
    clock.pass_by(TRY_SECONDS)
    sign_in("there")
    trial = claimed(machine="here")  # out of the lines of another owner
    assert isinstance(claim(machine="here"), NothingDue)
    report(trial, machine="here")
    assert all(run(queue.read_owned_parts()).values())
    clock.pass_by(TRY_SECONDS)
    assert hosts_of(claim_all("here")) == {host for host in HOSTS if owner_of(host) == "here"}


def test_while_all_networks_are_away_each_owner_tries_now_and_then(clock: Clock) -> None:
    sign_in("here", "there")
    enqueue(*(job(host=host) for host in HOSTS))
    for machine in ("here", "there"):
        report(claimed(machine=machine), AWAY, machine=machine)
    assert all(run(queue.read_owned_parts()).values())
    clock.pass_by(TRY_SECONDS)
    for machine in ("here", "there"):
        assert isinstance(claim(machine=machine), ClaimedJob)
        assert isinstance(claim(machine=machine), NothingDue)


def test_a_network_that_is_away_by_one_egress_gives_up_the_domains_of_that_one_alone(settings: Settings) -> None:
    settings.FETCH_EGRESS = ["a=192.0.2.1"]
    enqueue(*(job(f"by-{egress}", host, egress=egress) for host in HOSTS for egress in ("", "a")))
    sign_in("here", "there")
    report(next(held for held in claim_all("here") if held.egress == "a"), AWAY, machine="here")
    assert {owner_of(host, "a") for host in HOSTS} == {"there"}
    assert {owner_of(host) for host in HOSTS} == {"here", "there"}


def test_domains_by_an_egress_are_left_to_machines_that_have_it(settings: Settings) -> None:
    sign_in("here")
    settings.FETCH_EGRESS = ["a=192.0.2.1", "b=192.0.2.2"]
    sign_in("there")
    enqueue(*(job(host=host, egress="b") for host in HOSTS))
    settings.FETCH_EGRESS = []
    assert claim_all("here") == []
    settings.FETCH_EGRESS = ["a=192.0.2.1", "b=192.0.2.2"]
    assert hosts_of(claim_all("there")) == set(HOSTS)


def test_an_egress_that_no_machine_has_any_more_is_left_to_all() -> None:
    sign_in("here", "there")
    enqueue(*(job(host=host, egress="gone") for host in HOSTS))
    assert hosts_of(claim_all("here")) | hosts_of(claim_all("there")) == set(HOSTS)


def test_a_redirect_is_followed_by_any_fetcher_at_the_pace_of_all() -> None:
    sign_in("here", "there")
    enqueue(job())
    assert run(queue.take_turn(f"https://{HOST}/1", "", 10)).wait_seconds == 0
    assert idle() > 0.4, "the turn counts for the owner"
    assert run(queue.take_turn(f"https://{HOST}/2", "", 10)).wait_seconds > 0.4


def test_without_any_fetcher_nobody_owns_a_domain(clock: Clock) -> None:
    enqueue(job())
    sign_in("here")
    assert owner_of(HOST) == "here"
    clock.pass_by(LEASE_SECONDS + 1)
    assert (owner_of(HOST), run(queue.read_owned_parts())) == ("", {})
    run(queue.sign_out_fetcher(name_of("here")))
    assert run(queue.read_owned_parts()) == {}
    assert report(claimed(), OK) == jobs.JobEnded()
