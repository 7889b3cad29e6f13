"""Mirroring a corpus while a fetcher and a worker are killed, judged by the origins' log and the stored files."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from resources.mirror.storage import blobs
from tests.hostile import corpora
from tests.hostile.corpora import Corpus
from tests.hostile.corpus import answer_to
from tests.support.fetcher_processes import FurtherFetcher
from tests.support.stack import ROOT, Stack, eventually

HOSTS = [f"127.3.0.{number}" for number in range(1, 61)]
VOUCHING = 0
"""The host of all files with validators: it is known from the first few that it can be trusted."""
BASE, VARIANTS, SAME, VALIDATED, FAILING, LARGE = 280, 60, 14, 20, 12, 8
SIZE, LARGE_SIZE = 3_000, 1_000_000
REPORTERS, ASKED = 3, 8
STATUSES = ("/s/404", "/s/410", "/s/403", "/loop")


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    with corpora.running(tmp_path / "asked", HOSTS, 120, delay=0.3) as found:
        yield found


def test_a_corpus_is_stored_once_whoever_is_killed(stack: Stack, corpus: Corpus) -> None:
    with FurtherFetcher(stack), FurtherFetcher(stack):
        with reporting(stack, base(corpus), 2 * ASKED) as first:
            eventually(lambda: len(corpus.asked()) >= BASE / 2, 30, "half of it is asked for")
            stack.kill("fetch")
            killed = time.time()  # all that the dead one has begun was begun before
            stack.kill("work", children=True)
            all_killed = time.time()
            written = written_as_new(stack)
        assert written
        assert sum(one["accepted"] for one in first) > BASE, "none of them was reported twice at once"
        assert sum(one.get("asked: 200", 0) for one in first) == ASKED
        settled(stack, corpus, BASE)
        with reporting(stack, [*variants(corpus), *others(corpus)], 2) as second:
            pass
        assert min(one["known"] for one in second) == BASE + VARIANTS
        settled(stack, corpus, BASE + SAME + VALIDATED + FAILING + LARGE)
    assert max(one.at_once for one in corpus.asked()) == 1
    ended, expects = found(stack), expected([*base(corpus), *others(corpus)])
    contents = set(expects.values())
    steps = Counter(step for _, step, _, _ in ended.urls)
    assert {url: digest for url, _, digest, _ in ended.urls if digest} == expects
    again = {one.path for one in corpus.asked() if one.sent and one.began < killed} & asked_since(corpus, killed)
    new = Counter(digest for _, step, digest, _ in ended.urls if step == "new")
    assert set(new.values()) == {1}
    # Files that a killed process had stored, without a row, are not new to the next process.
    left = contents - new.keys() - {expects[corpus.url_of(path)] for path in again}
    assert all(ended.blobs[digest] < all_killed for digest in left)
    assert all(settled_at >= killed for _, _, digest, settled_at in ended.urls if digest in left)
    assert written - {corpus.url_of(path) for path in again} <= {url for url, step, _, _ in ended.urls if step == "new"}
    assert steps["failed"] == FAILING
    assert {url.partition("?")[0]: digest for url, digest in ended.told if digest} == expects
    assert set(ended.blobs) == set(files(stack)) == contents
    assert all(digest == sha256(body).hexdigest() for digest, body in files(stack).items())
    bodies = Counter(one.path for one in corpus.asked() if one.sent)
    assert bodies.total() - len(again) <= 1.1 * len(contents)
    assert max(number - (path in again) for path, number in bodies.items()) == 1


def asked_since(corpus: Corpus, moment: float) -> set[str]:
    """The paths that were asked for since then."""
    return {one.path for one in corpus.asked() if one.began >= moment}


def base(corpus: Corpus) -> list[str]:
    """All of it different."""
    validated = [corpus.url(VOUCHING, f"/v/{number}/{SIZE}/a.jpg") for number in range(VALIDATED)]
    plain = [corpus.url(number, f"/c/{number}/{SIZE}/a.jpg") for number in range(VALIDATED, BASE)]
    return validated + plain


def variants(corpus: Corpus) -> list[str]:
    """The known URLs, and the same with tracking parameters."""
    return [*base(corpus), *(f"{url}?utm_source=news" for url in base(corpus)[-VARIANTS:])]


def others(corpus: Corpus) -> list[str]:
    """The same bytes elsewhere, by their validators or not; failing URLs; large files."""
    validated = [corpus.url(VOUCHING, f"/v/{number}/{SIZE}/b.jpg") for number in range(VALIDATED)]
    same = [corpus.url(number + 1, f"/c/{number}/{SIZE}/b.jpg") for number in range(BASE - SAME, BASE)]
    failing = [corpus.url(number, f"{STATUSES[number % len(STATUSES)]}/{number}") for number in range(FAILING)]
    large = [corpus.url(number, f"/c/{BASE + number}/{LARGE_SIZE}/c.mp4") for number in range(LARGE)]
    return [*validated, *same, *failing, *large]


def expected(urls: Sequence[str]) -> dict[str, str]:
    """The content of each of them that has any."""
    bodies = {url: answer_to(urlsplit(url).path).body for url in urls}
    return {url: sha256(body).hexdigest() for url, body in bodies.items() if body}


@contextmanager
def reporting(stack: Stack, urls: Sequence[str], at_once: int) -> Iterator[list[dict[str, int]]]:
    """Reports the list, by several processes at once; the files in each answer are there at the end.

    The host of its first URL is asked `at_once`: so many have to meet there, or its validators would be believed late.
    """
    host = urlsplit(urls[0]).netloc
    command = [sys.executable, "-m", "tests.support.mirror_reports", str(REPORTERS), host, str(at_once)]
    environment = {**stack.environment, "PUBLIC_URL": stack.base_url}
    told: list[dict[str, int]] = []
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        process.stdin.write("\n".join(urls))
        process.stdin.close()
        process.stdin = None
        yield told
        out, _ = process.communicate(timeout=90)
        told += json.loads(out.splitlines()[-1])


def settled(stack: Stack, corpus: Corpus, number: int) -> None:
    """Returns when so many URLs have been asked for, and nothing is in flight."""
    eventually(lambda: len({one.path for one in corpus.asked()}) >= number, 30, "all of it is asked for")
    with suppress(AssertionError):
        eventually(lambda: not marks(stack), 30, "nothing is in flight, or is to go on")
    assert marks(stack) == []


MARKS = (
    *("retry:{0}:claim:fetch:mirror:*", "retry:{0}:queued:fetch.*", "retry:{0}:leases"),
    *("fetch:{0}:job:*", "fetch:{0}:wanted:*", "fetch:{0}:jobs:*", "fetch:{0}:leases"),
    "mirror:unsettled",
)


def marks(stack: Stack) -> list[bytes]:
    """The marks of URLs that are in flight, or to go on."""
    return [key for name in MARKS for key in stack.state.scan_iter(name)]


@dataclass(frozen=True, slots=True)
class Ended:
    """Rows of URLs: URL, step, digest, moment of settlement; moments of storing by digests of blobs; reported URLs with
    the answers of their lists. All moments are Unix seconds, 0 where there is none.
    """

    urls: list[tuple[str, str, str, float]]
    blobs: dict[str, float]
    told: list[tuple[str, str]]


def written_as_new(stack: Stack) -> set[str]:
    """The URLs with new content, by the written rows."""
    code = (
        "import json; from resources.mirror.models import Resource; "
        "print(json.dumps(list(Resource.objects.filter(step='new').values_list('url', flat=True))))"
    )
    return set(json.loads(stack.manage("shell", "--no-imports", "-c", code)))


def found(stack: Stack) -> Ended:
    """Waits until no list is open. Returns the rows."""
    is_open = "from resources.mirror.models import Batch; print(Batch.objects.filter(finished_at=None).exists())"
    eventually(lambda: "False" in stack.manage("shell", "--no-imports", "-c", is_open), 10, "all lists are finished")
    code = (
        "import json; from resources.mirror.models import BatchItem, Blob, Resource; "
        "rows = Resource.objects.values_list('url', 'step', 'blob_digest', 'fetched_at'); "
        "rows = [[*row, at.timestamp() if at else 0] for *row, at in rows]; "
        "items = BatchItem.objects.values_list('url', 'blob_digest'); "
        "blobs = {pk: at.timestamp() for pk, at in Blob.objects.values_list('pk', 'stored_at')}; "
        "print(json.dumps([rows, blobs, list(items)]))"
    )
    return Ended(*json.loads(stack.manage("shell", "--no-imports", "-c", code)))


def files(stack: Stack) -> dict[str, bytes]:
    """The stored files, by their names, without half-written ones of killed processes."""
    found = [path for path in (stack.data / "blobs" / "mirror").rglob("*") if path.is_file()]
    return {path.name: path.read_bytes() for path in found if not path.name.startswith(blobs.NEW_PREFIX)}
