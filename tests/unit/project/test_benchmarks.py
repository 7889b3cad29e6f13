"""The benchmarks can be run as they are documented, without any environment, and report missing measurements."""

import itertools
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.growth import curve_chart
from benchmarks.growth.curve_chart import Chart, Curve
from benchmarks.load.event_loop import run
from benchmarks.load.flood import flood
from benchmarks.peers import installation
from benchmarks.peers.everybody import OURS, Everybody
from benchmarks.peers.installation import MissingError
from benchmarks.peers.sites import Site
from benchmarks.serving.overload import Outcome, Round, judged
from project.paths import BASE_DIR
from tests.support.documentation import code_block
from tests.support.server import Handler, serving

Starter = Callable[[Path, bytes], AbstractContextManager[Site]]


def test_every_benchmark_can_be_named() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "-m", "benchmarks", "--help"]
    run = subprocess.run(command, cwd=BASE_DIR, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    block = code_block("docs/benchmarks.md", "", "-m benchmarks cold")
    documented = re.findall(r"python -m benchmarks ((?:[a-z_]+ ?)+)", block)
    assert {name for names in documented for name in names.split()} <= set(re.findall(r"[a-z_]+", run.stdout))


def is_missing(_folder: Path, _tile: bytes) -> AbstractContextManager[Site]:
    raise MissingError("it is not packed")


def fails_to_start(folder: Path, _tile: bytes) -> AbstractContextManager[Site]:
    (folder / "squid.log").write_text("listening\nno room left\n")
    raise AssertionError("not within 30 s: it answers")


def test_a_peer_that_does_not_start_is_reported_missing_with_the_reason_and_ours_ends_the_run() -> None:
    beside = Everybody({"Squid": is_missing, "Varnish": fails_to_start})
    with ExitStack() as parts:
        assert list(beside.all_started(parts)) == []
        with pytest.raises(AssertionError, match="it answers"):
            list(Everybody({OURS: fails_to_start}).all_started(parts))
    reasons = ["Squid is missing: it is not packed", "Varnish is missing: it does not start: squid.log: no room left"]
    assert [str(note).strip() for note in beside.notes()] == reasons


def test_what_goes_wrong_with_a_peer_that_has_started_is_no_matter_of_its_start() -> None:
    @contextmanager
    def start(folder: Path, _tile: bytes) -> Iterator[Site]:
        yield Site("127.0.0.1:1", "/", folder)

    with pytest.raises(AssertionError, match="measured"), Everybody({"Squid": start}).started("Squid"):
        raise AssertionError("measured wrongly")


def test_requests_are_sent_when_they_are_due_though_none_is_answered() -> None:
    asked, many_asked = itertools.count(1), threading.Event()

    class Patient(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            if next(asked) == 30:
                many_asked.set()
            assert many_asked.wait(10)
            self.answer(200, b"at last")

    with serving(Patient) as url:
        began = time.time()
        sent = run(flood(url.removeprefix("http://"), lambda: "/", rate=40, seconds=1))
    assert {one.visit.status for one in sent} == {200}
    assert len(sent) <= 40
    assert max(one.at for one in sent) - began > 29 / 40


@pytest.mark.parametrize(
    ("sent", "served", "statuses", "missed"),
    [
        (100, 9, {200: 108, 503: 1092}, []),
        (89, 9, {200: 108, 503: 960}, ["sent"]),
        (100, 7, {200: 84, 503: 1116}, ["served"]),
        (100, 9, {200: 108, 503: 1091, 0: 1}, ["answered"]),
    ],
    ids=["held", "not asked for", "collapsed", "left without an answer"],
)
def test_ten_times_the_load_counts_when_it_was_sent(
    sent: float, served: float, statuses: dict[int, int], missed: list[str]
) -> None:
    fine, other = Outcome(100, 9, Counter({200: 108}), 1.0), Outcome(sent, served, Counter(statuses), 1.0)
    figures = list(judged("pages", [Round(10, flood, after=10) for flood in (other, fine, other)]))
    assert [figure.name.split()[1] for figure in figures if figure.missed] == missed
    assert [Round(*peaks).served_share for peaks in ((10, fine, 5), (5, fine, 10))] == [0.9, 0.9]  # the better peak


def test_a_package_that_cannot_be_had_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "RESULTS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # there is no apt-get
    with pytest.raises(MissingError, match="squid cannot be installed here"):
        installation.unpacked("squid", "squid")
    assert list(tmp_path.iterdir()) == []


def test_the_picture_of_a_curve_has_its_points_in_their_order() -> None:
    curve = Curve("cost < benefit", [(10, 0.5), (1000, 20), (100_000, 20)])
    picture = ElementTree.fromstring(curve_chart.svg([Chart("Work", "pieces", "s", [curve])], "2 cores"))
    circles = [element for element in picture.iter() if element.tag.endswith("circle")]
    across, down = ([float(circle.attrib[name]) for circle in circles] for name in ("cx", "cy"))
    assert across == sorted(across)
    assert across[2] - across[1] == pytest.approx(across[1] - across[0])
    assert down[0] > down[1] == down[2]
