"""`manage.py ingest`: from a file to rows, and on from there after any end."""

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from resources.management.cli import INTERRUPTED_EXIT_CODE
from resources.mirror.models import Batch, BatchItem, Resource
from resources.mirror.reports import batches, bulk
from resources.mirror.reports.batches import SentList
from tests.support.mirror_rows import NOW, fail, store, stored_resource, url

from ..conftest import raising

pytestmark = pytest.mark.django_db


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "urls.txt"
    path.write_text("# three\n" + "".join(f"{url(name)}\n" for name in "abc"))
    return path


@pytest.fixture(autouse=True)
def _small_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "URLS_PER_LIST", 2)


def run(file: Path | str, *options: str) -> tuple[str, str]:
    """Its output, and its messages of failures."""
    out, err = io.StringIO(), io.StringIO()
    call_command("ingest", str(file), *options, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def meanwhile(monkeypatch: pytest.MonkeyPatch, *acts: Callable[[], object]) -> None:
    """The steps of the fetchers while the command sleeps, each time one."""
    left = list(acts)
    monkeypatch.setattr(time, "sleep", lambda _: left.pop(0)())


def stores(*names: object) -> Callable[[], None]:
    def store_all() -> None:
        for name in names:
            store(name)

    return store_all


def test_it_fails_when_something_was_not_stored(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with file.open("a") as lines_of:
        lines_of.write("ftp://x.example/\n")
    meanwhile(monkeypatch, stores("a", "c"), lambda: fail("b", "404 Not Found"), lambda: None)
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(CommandError, match="2 of them") as error:
        call_command("ingest", str(file), stdout=out, stderr=err)
    assert error.value.returncode == 1
    assert "4 URLs: 2 stored, 1 failed, 1 refused." in out.getvalue()
    assert f"{url('b')}: 404 Not Found" in err.getvalue()
    assert "ftp://x.example/" in err.getvalue()


def test_how_much_is_looked_at_does_not_grow_with_the_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BATCHES_COUNTED_PER_LOOK", 2)
    ingest = bulk.BulkIngest()
    for name in range(5):
        ingest.report(SentList([url(name), url(f"{name} too")], "tests"), NOW)
    with CaptureQueriesContext(connection) as asked:
        ingest.look(NOW)
    assert len([query for query in asked if "COUNT" in query["sql"]]) == 2
    assert (ingest.open, ingest.is_finished) == (10, False)

    for name in range(4):
        store(name)
        batches.settle_batch(list(Batch.objects.order_by("created_at"))[name].pk, NOW)
    told = []
    for _ in range(3):
        ingest.look(NOW)
        told.append(ingest.open)
    assert told == sorted(told, reverse=True)
    assert told[-1] == 6


def test_without_waiting_it_says_what_is_not_ended(file: Path) -> None:
    stored_resource("a")
    out, _ = run(file, "--no-wait")
    assert "3 URLs: 1 stored, 0 failed, 0 refused, 2 not settled yet." in out


def test_stopped_it_says_how_to_go_on_and_goes_on(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, raising(KeyboardInterrupt))
    with pytest.raises(CommandError, match=r"again") as error:
        run(file)
    assert error.value.returncode == INTERRUPTED_EXIT_CODE
    asked = Resource.objects.count(), Batch.objects.count(), BatchItem.objects.count()
    assert asked == (3, 2, 3)
    meanwhile(monkeypatch, stores("a"), stores("b", "c"), lambda: None)
    out, _ = run(file)
    assert "3 URLs: 3 stored, 0 failed, 0 refused." in out
    assert out.split("new content")[1].split()[0] == "3"
    assert (Resource.objects.count(), Batch.objects.count(), BatchItem.objects.count()) == asked


def test_the_same_file_again_asks_nothing_twice(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(file, "--no-wait")
    for name in "abc":
        store(name)
    run(file)
    file.write_text(f"{url('c')}\n{url('a')}\n")
    out, _ = run(file)
    assert "2 URLs: 2 stored" in out
    assert Resource.objects.count() == 3


def test_urls_come_from_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{url('a')}\n".encode())))
    out, _ = run("-", "--no-wait", "--referer", "https://example.org/")
    assert "1 URLs" in out
    assert Resource.objects.get().referer == "https://example.org/"


@pytest.mark.parametrize(
    ("arguments", "said"), [(["nowhere.txt"], "nowhere.txt"), (["{file}", "--referer", "x"], "Referer")]
)
def test_what_cannot_be_done_is_told_in_a_line(file: Path, arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run(*(argument.format(file=file) for argument in arguments))


def test_an_empty_file_is_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_text("# nothing\n\n")
    assert "0 URLs" in run(path)[0]


def test_it_says_when_nothing_moves(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 50))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    meanwhile(monkeypatch, *[lambda: None] * 5, stores("a", "b", "c"), *[lambda: None] * 3)
    _, err = run(file)
    assert "No URL was settled for a minute" in err


def test_the_same_lines_make_the_same_lists() -> None:
    data = b"".join(b"https://a.example/%d\n" % number for number in range(bulk.URLS_PER_LIST + 1))
    assert [len(chunk) for chunk in bulk.read_url_lists(io.BytesIO(data))] == [bulk.URLS_PER_LIST, 1]


@pytest.mark.parametrize(
    ("data", "urls"),
    [
        pytest.param(
            b"\n# a list\nhttps://a.example/1 \r\n\n  #x\nhttps://a.example/#y\n",
            ["https://a.example/1", "https://a.example/#y"],
            id="blank lines and comments",
        ),
        pytest.param(b"\xef\xbb\xbfhttps://a.example/", ["https://a.example/"], id="a mark of the encoding"),
        pytest.param(b"https://a.example/\xff\n", ["https://a.example/\udcff"], id="no text, to be refused"),
        pytest.param(
            b"x" * 100_000 + b"\nhttps://b.example/\n",
            ["x" * bulk.MAX_LINE_BYTES, "https://b.example/"],
            id="a line of any length",
        ),
    ],
)
def test_each_line_is_a_url(data: bytes, urls: list[str]) -> None:
    assert list(bulk.read_urls(io.BytesIO(data))) == urls
