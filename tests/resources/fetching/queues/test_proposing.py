"""Proposals for the scope of limits, from who was refused together."""

from resources.fetching.queues.proposing import Proposal, Refusal, propose


def refusal(at: float, host: str = "a.example.com", path: str = "x", scope: str = "") -> Refusal:
    return Refusal(at, host, f"{host}/{path}", scope or host)


def test_nothing_is_proposed_without_evidence() -> None:
    assert propose("example.com", []) is None
    assert propose("example.com", [refusal(1), refusal(2, "b.example.com")]) is None


def test_hosts_that_refuse_at_once_twice_may_have_one_limit() -> None:
    refusals = [refusal(at, host) for at in (1, 100) for host in ("a.example.com", "b.example.com")]
    why = "a.example.com, b.example.com refused requests at the same time."
    assert propose("example.com", refusals) == Proposal("example.com", "registrable", why)


def test_hosts_that_refuse_at_different_times_have_limits_of_their_own() -> None:
    refusals = [refusal(60.0 * number, f"{'ab'[number % 2]}.example.com") for number in range(20)]
    assert propose("example.com", refusals) is None


def test_what_is_one_scope_already_is_not_widened() -> None:
    hosts = ("a.example.com", "b.example.com")
    refusals = [refusal(at, host, scope="example.com") for at in (1, 100) for host in hosts]
    assert propose("example.com", refusals) is None


def test_one_host_that_refuses_alone_gets_limits_of_its_own() -> None:
    refusals = [refusal(60.0 * number, scope="example.com") for number in range(10)]
    found = propose("example.com", refusals)
    assert found == Proposal("a.example.com", "host", "Of all hosts only a.example.com refuses requests.")


def test_one_path_that_refuses_alone_gets_limits_of_its_own() -> None:
    refusals = [refusal(60.0 * number) for number in range(10)]
    assert propose("example.com", refusals) == Proposal(
        "a.example.com", "path", "Only a.example.com/x refuses requests."
    )
    assert propose("example.com", [*refusals, refusal(999, path="y")]) is None
    assert propose("example.com", refusals[:9]) is None
