"""New files, mirrored by Tarry and by Scrapy's files pipeline: files a second, and processor time of a file."""

import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.hostile import corpora
from tests.hostile.corpora import Corpus
from tests.support.stack import Stack, eventually

from ..figures import Figure, Note, median
from ..machine import cpu_seconds
from ..mirror import ingest
from . import feeds, installation
from .installation import MissingError

FILES = 3_000
SIZE = 10_000
ROUNDS = 3
AT_ONCE = ingest.AT_ONCE
PER_HOST = ingest.ENVIRONMENT["FETCH_IN_FLIGHT"]
SCRIPT = feeds.SCRIPTS / "files_with_scrapy.py"
SECONDS = 600


@dataclass(frozen=True, slots=True)
class Round:
    """Figures of so many files, from the first request until the last is stored. CPU is that of all its processes."""

    seconds: float
    cpu_seconds: float


def measure() -> Iterator[Figure | Note]:
    """In turns, the same origins, other files each time."""
    try:
        python = installation.commands("feeds", *feeds.PACKAGES) / "python"
    except MissingError as missing:
        yield Note(f"Scrapy is missing: {missing}")
        return
    numbers = count(10**6)
    with ExitStack() as parts:
        directory = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="tarry-files-")))
        corpus = parts.enter_context(corpora.running(directory / "asked", ingest.HOSTS, SECONDS))
        stack = parts.enter_context(Stack(**ingest.ENVIRONMENT, FETCHERS="auto"))
        ours, theirs = [], []
        for turn in range(ROUNDS):
            lists = [[corpus.url(n, f"/c/{next(numbers)}/{SIZE}/a.jpg") for n in range(FILES)] for _ in range(2)]
            ours.append(_mirrored(stack, corpus, lists[0], directory))
            theirs.append(_by_scrapy(python, corpus, lists[1], directory / f"scrapy-{turn}"))
    yield Note(f"{FILES:,} new files of {SIZE:,} bytes from {len(ingest.HOSTS)} hosts, {ROUNDS} rounds")
    yield from _compared(ours, theirs)


def _compared(ours: list[Round], theirs: list[Round]) -> Iterator[Figure]:
    for name, rounds in (("Tarry, a fetcher for each core", ours), ("Scrapy's files pipeline", theirs)):
        yield Figure(f"{name}: files a second, median", FILES / median([one.seconds for one in rounds]), "/s")
        yield Figure("  CPU of a file, median", median([one.cpu_seconds for one in rounds]) / FILES * 1000, "ms")
    pairs = list(zip(ours, theirs, strict=True))
    yield Figure(
        "files a second, Tarry ÷ Scrapy", median([other.seconds / one.seconds for one, other in pairs]), at_least=1.3
    )
    yield Figure(
        "CPU of a file, Tarry ÷ Scrapy",
        median([one.cpu_seconds / other.cpu_seconds for one, other in pairs]),
        at_most=1.5,
    )


def _mirrored(stack: Stack, corpus: Corpus, urls: list[str], directory: Path) -> Round:
    """By a list that `ingest` hands in. Its own CPU counts, as that of the whole site."""
    asked, stored, pids = len(corpus.asked()), ingest.number_of_blobs(stack), stack.all_pids()
    before = cpu_seconds(pids) + _ended_cpu_seconds()
    ingesting = ingest.begin(stack, urls, directory)
    eventually(lambda: ingest.number_of_blobs(stack) >= stored + len(urls), SECONDS, "all of it is stored")
    ended = max(path.stat().st_mtime for path in (stack.data / "blobs" / "mirror").rglob("*") if path.is_file())
    ingest.end(stack, ingesting)
    spent = cpu_seconds(pids) + _ended_cpu_seconds() - before
    return Round(ended - min(one.began for one in corpus.asked()[asked:]), spent)


def _by_scrapy(python: Path, corpus: Corpus, urls: list[str], folder: Path) -> Round:
    """Raises RuntimeError when it has not stored all of them."""
    asked, before = len(corpus.asked()), _ended_cpu_seconds()
    command = [str(python), str(SCRIPT), str(folder), str(AT_ONCE), PER_HOST]
    subprocess.run(command, input="\n".join(urls), text=True, check=True, timeout=SECONDS, capture_output=True)
    stored = [path.stat().st_mtime for path in folder.rglob("*") if path.is_file()]
    if len(stored) != len(urls):
        raise RuntimeError(f"Scrapy has stored {len(stored):,} of {len(urls):,} files")
    return Round(max(stored) - min(one.began for one in corpus.asked()[asked:]), _ended_cpu_seconds() - before)


def _ended_cpu_seconds() -> float:
    """CPU time of the processes that this one has waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime
