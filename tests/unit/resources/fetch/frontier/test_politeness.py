"""Verdicts of outcomes on their domains."""

import pytest

from resources.fetch.frontier import politeness
from resources.fetch.frontier.jobs import RateVerdict
from resources.fetch.http.messages import Failure, FetchFailed, Hop, OutcomeTiming

URL, ELSEWHERE = "https://a.example.com/1", "https://b.example.com/2"
TIMING = OutcomeTiming(0, 1)
HOPS = (Hop(URL, 302),)


@pytest.mark.parametrize(
    ("failure", "status", "url", "hops", "verdict"),
    [
        pytest.param(Failure.EXPIRED, None, "", (), RateVerdict.UNSENT, id="nothing was asked"),
        pytest.param(Failure.REFUSED, None, "", (), RateVerdict.UNSENT, id="nor for a port that is not fetched from"),
        pytest.param(Failure.REFUSED, None, URL, (), RateVerdict.UNSENT, id="nor at an address that is refused"),
        pytest.param(Failure.REFUSED, 302, "", HOPS, RateVerdict.REFUSED, id="an answer that leads to what is refused"),
        pytest.param(Failure.REFUSED, 302, ELSEWHERE, HOPS, RateVerdict.REFUSED, id="or to another host that is"),
        pytest.param(Failure.TRANSIENT, None, URL, (), RateVerdict.UNREACHABLE, id="no answer"),
        pytest.param(Failure.TRANSIENT, 500, URL, (), RateVerdict.FAILED, id="an error"),
        pytest.param(Failure.TRANSIENT, 500, ELSEWHERE, HOPS, RateVerdict.REFUSED, id="an error of another host"),
        pytest.param(Failure.PERMANENT, 404, URL, (), RateVerdict.REFUSED, id="an answer about this address alone"),
        pytest.param(Failure.THROTTLED, 429, URL, (), RateVerdict.THROTTLED, id="a limit"),
        pytest.param(Failure.THROTTLED, 429, ELSEWHERE, HOPS, RateVerdict.REFUSED, id="a limit of another host"),
        pytest.param(
            Failure.POSTPONED, 302, URL, HOPS, RateVerdict.REFUSED, id="an answer that leads to one left alone"
        ),
        pytest.param(
            Failure.EXPIRED, 302, URL, HOPS, RateVerdict.REFUSED, id="an answer that leads to what has expired"
        ),
        pytest.param(Failure.OURS, None, URL, (), RateVerdict.AWAY, id="our network"),
    ],
)
def test_each_failure_counts_against_whom_it_concerns(
    failure: Failure, status: int | None, url: str, hops: tuple[Hop, ...], verdict: RateVerdict
) -> None:
    assert politeness.build_report(FetchFailed(failure, "no", TIMING, status, hops=hops, url=url)).verdict is verdict


@pytest.mark.parametrize("failure", Failure)
def test_only_the_jobs_own_failures_are_attempts(failure: Failure) -> None:
    is_nobodys = failure in {Failure.THROTTLED, Failure.POSTPONED, Failure.OURS}
    assert politeness.counts_as_attempt(FetchFailed(failure, "no", TIMING)) is not is_nobodys
