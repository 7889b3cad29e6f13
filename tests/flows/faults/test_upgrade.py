"""Processes replaced by the commands of docs/operations.md, while clients send requests and wait."""

import shutil
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from tests.support import file_server
from tests.support.crowd import Crowd, Visit
from tests.support.documentation import carry_out, commands
from tests.support.stack import ROOT, Stack, eventually

from .conftest import BOUND_SECONDS, wait_until_clients_wait

pytestmark = pytest.mark.no_database

REPLACED = ("main", "retry", "paint-now", "paint-refresh", "paint-warm", "work", "beat", "fetch", "nginx")
PAUSE_SECONDS = 0.02
"""The pause between two rounds of questions. Every tenth round has a question for cold content."""
SHORT, LONG = 0.1, 3
"""Seconds that content takes. Painters are at half of their capacity."""
PAGES = 100
CLIENTS = 100
LATE_SHARE = 0.2
"""The share of waiting clients that may give up during an upgrade: a busy machine restarts painters slowly."""
GAVE_UP = b"The preparation takes longer than the limit for waiting."

ROBOTS, TRIES = "User-agent: *", count()

RELOADS = {
    "main and retry": commands("signal HUP site:main site:retry"),
    "nginx": commands("project.nginx_reload").splitlines()[-1],
}


@contextmanager
def asked_steadily(crowd: Crowd, questions: Callable[[int], Sequence[str]]) -> Iterator[list[Future[list[Visit]]]]:
    """Sends all questions of each round, regardless of earlier ones. Yields the futures of their answers."""
    over = threading.Event()
    sent: list[Future[list[Visit]]] = []

    def go_on() -> None:
        for number in count():
            if over.wait(PAUSE_SECONDS):
                return
            sent.append(crowd.send(questions(number)))

    asking = threading.Thread(target=go_on)
    asking.start()
    try:
        yield sent
    finally:
        over.set()
        asking.join()


def ended(sent: Sequence[Future[list[Visit]]]) -> list[Visit]:
    return [visit for one in sent for visit in one.result(BOUND_SECONDS)]


def told(visit: Visit) -> str:
    """Its end; if not well, the question and the answers on the way."""
    if visit.status == 200:
        return "served"
    return f"{visit.address}: {visit.statuses} {visit.error} {[answer.cache_status for answer in visit.answers]}"


def waited_in_vain(visit: Visit) -> bool:
    """Tells whether it waited as long as clients may for painted content, and is told to come again."""
    return visit.address.startswith("/slow/") and visit.is_honest_refusal and GAVE_UP in visit.body


@pytest.mark.parametrize("what", RELOADS)
def test_a_reload_costs_nobody_an_error(stack: Stack, crowd: Crowd, name: str, what: str) -> None:
    """Cached in nginx, cached in main, cold, and waited for all the while."""
    cached = f"/slow/{name}cached?size=5000"
    crowd.insist([cached])
    crowd.visit(f"{cached}&n=0")
    before = {process: stack.pids(process)[1:] for process in ("main", "retry", "nginx")}
    replaced = [process for process in before if process in what]

    def questions(number: int) -> list[str]:
        cold = [f"/slow/{name}{number}?seconds={SHORT}"] if number % 10 == 0 else []
        return [cached, f"{cached}&n={number}", *cold]

    def are_replaced() -> bool:
        return all(set(stack.pids(one)).isdisjoint(before[one]) for one in replaced)

    with asked_steadily(crowd, questions) as sent:
        waiting = crowd.send([f"/slow/{name}gated?gated=1"] * CLIENTS)
        wait_until_clients_wait(stack, CLIENTS)
        carry_out(stack, RELOADS[what])
        if what != "nginx":  # whose old workers stay as long as a client waits by them
            eventually(are_replaced, 20, f"{replaced} are replaced")
        stack.open_gate(f"{name}gated")
        visits = waiting.result(BOUND_SECONDS)
        eventually(are_replaced, 20, f"{replaced} are replaced")
    visits += ended(sent)
    assert Counter(told(visit) for visit in visits) == {"served": len(visits)}
    assert {status for visit in visits for status in visit.statuses} == {200, 302}
    assert stack.executions(f"{name}gated") == 1


def test_an_upgrade_loses_nobody_who_waits_and_nobody_who_asks_for_what_is_cached(
    stack: Stack, crowd: Crowd, name: str
) -> None:
    cached = f"/slow/{name}cached?size=5000"
    crowd.insist([cached])
    before = {process: stack.pids(process)[1:] or stack.pids(process) for process in REPLACED}
    manager = psutil.Process(stack.all_pids()[0])
    with file_server.running() as origin:
        origin.files = {f"/{number}": b"page" for number in range(PAGES)}
        pages = [f"/fetched/?url={quote(origin.url + path, safe='')}" for path in origin.files]

        def questions(number: int) -> list[str]:
            asked = [cached]
            if number % 10 == 0:
                asked.append(f"/slow/{name}{number}?seconds={LONG if number % 200 == 0 else SHORT}")
            if number % 100 == 50 and pages:
                asked.append(pages.pop())
            return asked

        with asked_steadily(crowd, questions) as sent:
            manager.cpu_percent()  # starts the measurement
            carry_out(stack, commands("restart site:$process"))
            stack.wait_until_healthy()
            assert manager.cpu_percent() < 20, "the process manager waits with pauses"
        visits = ended(sent)
        late = [visit for visit in visits if waited_in_vain(visit)]
        others = [visit for visit in visits if not waited_in_vain(visit)]
        assert Counter(told(visit) for visit in others) == {"served": len(others)}
        waited = [visit for visit in visits if len(visit.answers) > 1]
        assert len(waited) > 10
        assert len(late) <= LATE_SHARE * len(waited)
        crowd.insist([visit.address for visit in late])
    eventually(
        lambda: all(set(stack.pids(one)).isdisjoint(pids) for one, pids in before.items()), 20, "all are replaced"
    )


def test_a_reload_and_a_restart_take_the_code_of_now(tmp_path: Path) -> None:
    """A site of a copy of the code, of which one file changes."""
    code = tmp_path / "code"
    shutil.copytree(ROOT, code, ignore=shutil.ignore_patterns(".*", "__pycache__", "results"))
    stack = Stack()
    stack.root = code
    with stack:
        assert robots(stack) == ROBOTS
        before = {name: stack.pids(name) for name in ("main", "retry", "work")}
        urls = code / "project" / "urls.py"
        urls.write_text(urls.read_text().replace("User-agent: *", "User-agent: Another"))
        for name in ("main", "retry"):
            stack.reload(name)
        stack.kill("work")
        eventually(lambda: robots(stack) == ROBOTS.replace("*", "Another"), 30, "main has the code of now")
        eventually(lambda: not {*before["work"]} & {*stack.pids("work")}, 30, "work runs again")
        executed = {name: " ".join(psutil.Process(stack.pids(name)[-1]).cmdline()) for name in ("main", "retry")}
        assert all("project.worker_process" in command for command in executed.values()), executed
        assert {name: stack.pid(name) for name in executed} == {name: before[name][0] for name in executed}
        stack.wait_until_healthy()


def robots(stack: Stack) -> str:
    with urllib.request.urlopen(f"{stack.base_url}/robots.txt?{next(TRIES)}", timeout=10) as answer:
        return str(answer.read().partition(b"\n")[0], "utf-8")
