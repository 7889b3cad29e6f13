"""What an outcome says of its domain."""

import pytest

from resources.fetching.fetcher import judging
from resources.fetching.outcomes import Failed, Failure, Hop, Timing
from resources.fetching.queues.jobs import Verdict

URL, ELSEWHERE = "https://a.example.com/1", "https://b.example.com/2"
TIMING = Timing(0, 1)
HOPS = (Hop(URL, 302),)


@pytest.mark.parametrize(
    ("failure", "status", "url", "hops", "verdict"),
    [
        pytest.param(Failure.EXPIRED, None, "", (), Verdict.UNSENT, id="nothing was asked"),
        pytest.param(Failure.REFUSED, None, "", (), Verdict.UNSENT, id="nor for a port that is not fetched from"),
        pytest.param(Failure.REFUSED, None, URL, (), Verdict.UNSENT, id="nor at an address that is refused"),
        pytest.param(Failure.REFUSED, 302, "", HOPS, Verdict.REFUSED, id="an answer that leads to what is refused"),
        pytest.param(Failure.REFUSED, 302, ELSEWHERE, HOPS, Verdict.REFUSED, id="or to another host that is"),
        pytest.param(Failure.TRANSIENT, None, URL, (), Verdict.UNREACHABLE, id="no answer"),
        pytest.param(Failure.TRANSIENT, 500, URL, (), Verdict.FAILED, id="an error"),
        pytest.param(Failure.TRANSIENT, 500, ELSEWHERE, HOPS, Verdict.REFUSED, id="an error of another host"),
        pytest.param(Failure.PERMANENT, 404, URL, (), Verdict.REFUSED, id="an answer about this address alone"),
        pytest.param(Failure.THROTTLED, 429, URL, (), Verdict.THROTTLED, id="a limit"),
        pytest.param(Failure.THROTTLED, 429, ELSEWHERE, HOPS, Verdict.REFUSED, id="a limit of another host"),
        pytest.param(Failure.POSTPONED, 302, URL, HOPS, Verdict.REFUSED, id="an answer that leads to one left alone"),
        pytest.param(Failure.EXPIRED, 302, URL, HOPS, Verdict.REFUSED, id="an answer that leads to what has expired"),
        pytest.param(Failure.OURS, None, URL, (), Verdict.AWAY, id="our network"),
    ],
)
def test_each_failure_counts_against_whom_it_concerns(
    failure: Failure, status: int | None, url: str, hops: tuple[Hop, ...], verdict: Verdict
) -> None:
    assert judging.report_of(Failed(failure, "no", TIMING, status, hops=hops, url=url)).verdict is verdict


@pytest.mark.parametrize("failure", Failure)
def test_only_the_jobs_own_failures_are_attempts(failure: Failure) -> None:
    is_nobodys = failure in {Failure.THROTTLED, Failure.POSTPONED, Failure.OURS}
    assert judging.counts(Failed(failure, "no", TIMING)) is not is_nobodys
