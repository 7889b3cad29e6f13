"""Mirroring a list of 20,000 URLs with three fetchers; one of them and a worker are killed.

The log of the origins and the stored files are judged; then its rate, against a bare downloader, and the rate of look-
ups of known URLs.
"""

import itertools
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path

from tests.hostile import corpora
from tests.hostile.corpora import Corpus
from tests.support.fetcher_processes import FurtherFetcher
from tests.support.stack import ROOT, Stack, eventually

from ..figures import Figure, Note
from ..load.event_loop import run
from ..peers import bare
from .url_report import Reported, digest_of

REPORTED = 20_000
REPORTERS = 3
"""Concurrent reporters of the list, each from another place in it."""
DELAY_SECONDS = 0.3
"""An origin answers after a third of this to all of it, so that concurrent requests overlap there."""
MOST_BODIES = 1.1
HOSTS = [f"127.3.0.{number}" for number in range(1, 201)]
FILES, AT_ONCE = 3_000, 80
"""Files for the comparison with a bare downloader, and its requests at once: as many as a fetcher's slots."""
SECONDS = 1200
ENVIRONMENT = {
    "FETCH_DELAY_SECONDS": "0.001",
    "FETCH_IN_FLIGHT": "8",
    "FETCH_BYTES_PER_SECOND": "0",
    "FETCH_ATTEMPTS": "1",
    "FETCH_LEASE_SECONDS": "3",
    "RETRY_LEASE_SECONDS": "3",
    "MIRROR_ATTEMPTS": "1",
}


def measure() -> Iterator[Figure | Note]:
    """The list, then the rate of new files, then that of known ones."""
    with ExitStack() as everything:
        directory = Path(everything.enter_context(tempfile.TemporaryDirectory(prefix="tarry-corpus-")))
        slow = everything.enter_context(corpora.running(directory / "asked-slowly", HOSTS, SECONDS, DELAY_SECONDS))
        corpus = everything.enter_context(corpora.running(directory / "asked", HOSTS, SECONDS))
        stack = everything.enter_context(Stack(**ENVIRONMENT))
        for _ in range(2):
            everything.enter_context(FurtherFetcher(stack))
        yield from _list(stack, slow, directory)
        yield from _speed(stack, corpus, directory)
        yield from _lookups(stack)


def _list(stack: Stack, corpus: Corpus, directory: Path) -> Iterator[Figure | Note]:
    reported = Reported(corpus, REPORTED)
    yield Note(f"{REPORTED:,} URLs of {len(HOSTS)} hosts, three fetchers; one is killed half-way, and a worker")
    base = reported.base()  # one place further on, it is another list
    everybody = [begin(stack, base[place:] + base[:place], directory) for place in range(REPORTERS)]
    half = len(base) / 2
    eventually(lambda: len(corpus.asked()) >= half, SECONDS, "half of it is asked for")
    stack.kill("fetch")
    stack.kill("work", children=True)
    for first in everybody:
        end(stack, first)
    end(stack, begin(stack, reported.everything(), directory))
    yield from _judge(stack, corpus, reported)


def _judge(stack: Stack, corpus: Corpus, reported: Reported) -> Iterator[Figure]:
    expected = reported.digests()
    contents = set(expected.values())
    ended = _rows(stack)
    stored = {url: digest for url, _, digest in ended if digest}
    bodies = sum(one.sent > 0 for one in corpus.asked())
    wrong = sum(digest != digest_of(url) for url, digest in [*stored.items(), *_told(stack)])
    yield Figure("URLs that were stored or have failed, of those that had to", _share(ended, reported), at_least=1)
    yield Figure("false merges: URLs with another file's content", wrong, at_most=0)
    blobs = set(_blobs(stack))
    yield Figure("stored blobs ÷ distinct contents", len(blobs) / len(contents), at_least=1, at_most=1)
    yield Figure("blobs that are no content of the origins", len(blobs - contents), at_most=0)
    yield Figure("files that are no blob, or have other bytes than it says", _wrong_files(stack, blobs), at_most=0)
    yield Figure("bodies downloaded ÷ distinct contents", bodies / len(contents), at_most=MOST_BODIES)
    yield Figure("ingest efficiency: newly stored ÷ bodies downloaded", _count(ended, "new") / bodies)
    yield Figure("the same URL in flight at once, at most", max(one.at_once for one in corpus.asked()), at_most=1)
    yield Figure("marks that are left", _marks(stack), at_most=0)


def _share(ended: Sequence[tuple[str, str, str]], reported: Reported) -> float:
    steps = {url: step for url, step, _ in ended}
    expected = reported.digests()
    urls = [*reported.base(), *reported.others()]
    right = sum((steps.get(url) == "failed") == (url not in expected) and bool(steps.get(url)) for url in urls)
    return right / len(urls)


def _count(ended: Sequence[tuple[str, str, str]], step: str) -> int:
    return Counter(one for _, one, _ in ended)[step]


def _speed(stack: Stack, corpus: Corpus, directory: Path) -> Iterator[Figure | Note]:
    numbers = itertools.count(10**6)
    mirrored, *urls = ([corpus.url(n, f"/c/{next(numbers)}/10000/a.jpg") for n in range(FILES)] for _ in range(3))
    before, stored_before = len(corpus.asked()), number_of_blobs(stack)
    ingesting = begin(stack, mirrored, directory)
    eventually(lambda: number_of_blobs(stack) >= stored_before + FILES, SECONDS, "all of it is stored")
    stored_at = time.time()
    end(stack, ingesting)
    whole = FILES / (stored_at - min(one.began for one in corpus.asked()[before:]))
    stored = run(bare.download(urls[0], AT_ONCE, bare.Store(directory / "stored", is_durable=True)))
    written = run(bare.download(urls[1], AT_ONCE, bare.Store(directory / "written", is_durable=False)))
    yield Note(f"{FILES:,} new files of 10,000 bytes; from the first request until the last is stored")
    yield Figure("files a second by three fetchers", whole, "/s")
    yield Figure("files a second by bare aiohttp that stores the same: on the disk, with a row", stored, "/s")
    yield Figure("files a second by bare aiohttp that writes files and waits for nothing", written, "/s")
    yield Figure("files a second, mirrored ÷ bare that stores the same", whole / stored)
    yield Figure("files a second, mirrored ÷ bare that waits for nothing", whole / written)


def number_of_blobs(stack: Stack) -> int:
    """The number of stored blobs, by the site's database."""
    with closing(sqlite3.connect(stack.data / "db.sqlite3", timeout=30)) as database:
        return int(database.execute("SELECT count(*) FROM resources_blob").fetchone()[0])


def _lookups(stack: Stack) -> Iterator[Figure]:
    command = [sys.executable, "-m", "benchmarks.mirror.lookups"]
    environment = {**stack.environment, "MIRROR_KNOWN_SECONDS": "0.001"}  # a process's own memory is not measured
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    rates: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    alone = rates.pop("one by one")
    for size, rate in rates.items():
        yield Figure(f"seen URLs looked up a second, in lists of {int(size):,}", rate, "/s")
    yield Figure("seen URLs looked up a second, by a query each", alone, "/s")
    yield Figure("in lists of 10,000 ÷ by a query each", rates["10000"] / alone)


def begin(stack: Stack, urls: Sequence[str], directory: Path) -> "subprocess.Popen[bytes]":
    """`manage.py ingest`, which waits until all of them have ended."""
    file = directory / f"list-{time.monotonic_ns()}"
    file.write_text("".join(f"{url}\n" for url in urls))
    command = [sys.executable, "manage.py", "ingest", str(file)]
    environment = {**stack.environment, "PUBLIC_URL": stack.base_url}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def end(stack: Stack, ingesting: "subprocess.Popen[bytes]") -> None:
    """Waits for it. Raises RuntimeError when it has failed itself."""
    if ingesting.wait(SECONDS) not in {0, 1}:  # 1: something has failed, as some of it does
        raise RuntimeError(f"`ingest` failed:\n{stack.logs()}")


def _rows(stack: Stack) -> list[tuple[str, str, str]]:
    """URL, step and digest of all."""
    code = (
        "import json; from resources.mirror.models import Resource; "
        "print(json.dumps(list(Resource.objects.values_list('url', 'step', 'blob_digest'))))"
    )
    return [(url, step, digest) for url, step, digest in json.loads(stack.manage("shell", "--no-imports", "-c", code))]


def _blobs(stack: Stack) -> list[str]:
    """The digests of all."""
    code = (
        "import json; from resources.mirror.models import Blob; "
        "print(json.dumps(list(Blob.objects.values_list('pk', flat=True))))"
    )
    found: list[str] = json.loads(stack.manage("shell", "--no-imports", "-c", code))
    return found


def _wrong_files(stack: Stack, blobs: set[str]) -> int:
    """Digests of the storage's files, without half-written ones; those of blobs without a file count too."""
    found = [path for path in (stack.data / "blobs" / "mirror").rglob("*") if path.is_file()]
    files = {path.name: path for path in found if not path.name.startswith(".")}  # it is being written
    right = sum(name in blobs and sha256(path.read_bytes()).hexdigest() == name for name, path in files.items())
    return len(files) + len(blobs) - 2 * right


def _told(stack: Stack) -> list[tuple[str, str]]:
    """Each reported URL, in any spelling, with the digest in its list's answer."""
    code = (
        "import json; from resources.mirror.models import BatchItem; "
        "print(json.dumps(list(BatchItem.objects.exclude(blob_digest='').values_list('url', 'blob_digest'))))"
    )
    return [(url, digest) for url, digest in json.loads(stack.manage("shell", "--no-imports", "-c", code))]


def _marks(stack: Stack) -> int:
    """The marks of URLs that are in flight, or to go on."""
    names = (
        "retry:{0}:claim:fetch:mirror:*",
        "mirror:after:*",
        "fetch:{0}:job:*",
        "fetch:{0}:wanted:*",
        "fetch:{0}:leases",
        "retry:{0}:leases",
    )
    eventually(lambda: not stack.state.exists("mirror:unsettled"), 30, "all lists are settled")
    return sum(1 for name in names for _ in stack.state.scan_iter(name))
