"""A fetcher that is killed, on Redis' own clock."""

import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection

from pytest_django import Settings

from resources.fetch.frontier.jobs import JobLost
from tests.conftest import RedisServers
from tests.support.frontier import claimed, enqueue, idle, job, report


def claim_and_hang(told: Connection) -> None:
    held = claimed()
    told.send(held)
    signal.pause()


def test_the_job_of_a_killed_fetcher_is_done_by_another(servers: RedisServers, settings: Settings) -> None:
    settings.FETCH_LEASE_SECONDS = 1
    enqueue(job("1"))
    here, there = multiprocessing.Pipe()
    fetcher = multiprocessing.get_context("fork").Process(target=claim_and_hang, args=(there,))
    fetcher.start()
    lost = here.recv()
    assert fetcher.pid
    os.kill(fetcher.pid, signal.SIGKILL)
    fetcher.join()
    wait = idle()
    assert 0 < wait <= 1
    time.sleep(wait + 0.005)
    found = claimed()
    assert (found.key, found.lapses) == (lost.key, 1)
    assert found.token > lost.token
    assert report(lost) == JobLost()
    report(found)
    assert servers.state.client.zcard("fetch:leases") == 0
