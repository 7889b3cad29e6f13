"""Mirroring a corpus while a fetcher and a worker are killed, judged by what the origins saw and what is stored."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.flows.fetchers import FurtherFetcher
from tests.flows.stack import ROOT, Stack, eventually
from tests.hostile import corpora
from tests.hostile.corpora import Corpus
from tests.hostile.corpus import answer_to

HOSTS = [f"127.3.0.{number}" for number in range(1, 61)]
VOUCHING = 0
"""The host of all files with validators: it is known from the first few that it can be trusted."""
BASE, VARIANTS, SAME, VALIDATED, FAILING, LARGE = 280, 60, 20, 20, 12, 8
SIZE, LARGE_SIZE = 3_000, 1_000_000
STATUSES = ("/s/404", "/s/410", "/s/403", "/loop")


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    with corpora.running(tmp_path / "asked", HOSTS, 120) as found:
        yield found


def test_a_corpus_is_stored_once_whoever_is_killed(stack: Stack, corpus: Corpus) -> None:
    with FurtherFetcher(stack), FurtherFetcher(stack):
        assert report(stack, base(corpus))["wanted"] == BASE
        eventually(lambda: len(corpus.asked()) >= BASE / 2, 30, "half of it is asked for")
        stack.kill("fetch")
        stack.kill("work", children=True)
        settled(stack, corpus, BASE)
        told = report(stack, [*variants(corpus), *others(corpus)])
        assert (told["known"], told["wanted"]) == (BASE, SAME + VALIDATED + FAILING + LARGE)
        settled(stack, corpus, BASE + told["wanted"])
    ended = found(stack)
    contents = {one.digest for one in ended if one.digest}
    steps = Counter(one.step for one in ended)
    assert {one.url: one.digest for one in ended if one.digest} == expected([*base(corpus), *others(corpus)])
    assert (len(contents), steps["new"], steps["failed"]) == (BASE + LARGE, BASE + LARGE, FAILING)
    assert steps["new"] + steps["content"] <= 1.1 * len(contents)
    assert max(one.at_once for one in corpus.asked()) == 1


def base(corpus: Corpus) -> list[str]:
    """All of it different."""
    validated = [corpus.url(VOUCHING, f"/v/{number}/{SIZE}/a.jpg") for number in range(VALIDATED)]
    plain = [corpus.url(number, f"/c/{number}/{SIZE}/a.jpg") for number in range(VALIDATED, BASE)]
    return validated + plain


def variants(corpus: Corpus) -> list[str]:
    """What is known already, and the same with parameters that only track."""
    return [*base(corpus), *(f"{url}?utm_source=news" for url in base(corpus)[-VARIANTS:])]


def others(corpus: Corpus) -> list[str]:
    """The same bytes elsewhere, by their validators or not; what fails; what is large."""
    validated = [corpus.url(VOUCHING, f"/v/{number}/{SIZE}/b.jpg") for number in range(VALIDATED)]
    same = [corpus.url(number + 1, f"/c/{number}/{SIZE}/b.jpg") for number in range(BASE - SAME, BASE)]
    failing = [corpus.url(number, f"{STATUSES[number % len(STATUSES)]}/{number}") for number in range(FAILING)]
    large = [corpus.url(number, f"/c/{BASE + number}/{LARGE_SIZE}/c.mp4") for number in range(LARGE)]
    return [*validated, *same, *failing, *large]


def expected(urls: Sequence[str]) -> dict[str, str]:
    """What each of them has, of those that have anything."""
    bodies = {url: answer_to(urlsplit(url).path).body for url in urls}
    return {url: sha256(body).hexdigest() for url, body in bodies.items() if body}


def report(stack: Stack, urls: Sequence[str]) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.flows.mirror_reports", urlsplit(urls[0]).netloc]
    done = subprocess.run(
        command, cwd=ROOT, env=stack.environment, input="\n".join(urls), stdout=subprocess.PIPE, text=True, check=True
    )
    told: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return told


def settled(stack: Stack, corpus: Corpus, number: int) -> None:
    """Returns when so many URLs have been asked for, and nothing is in flight."""
    eventually(lambda: len({one.path for one in corpus.asked()}) >= number, 30, "all of it is asked for")
    eventually(lambda: not marks(stack), 30, "nothing is in flight")


def marks(stack: Stack) -> list[bytes]:
    """What says that something is in flight, or is to go on."""
    return [key for name in ("retry:claim:mirror:*", "mirror:[ag]*") for key in stack.state.scan_iter(name)]


@dataclass(frozen=True, slots=True)
class Ended:
    """A row of a URL."""

    url: str
    step: str
    digest: str


def found(stack: Stack) -> list[Ended]:
    """All rows."""
    code = (
        "import json; from resources.mirroring.knowing.models import Resource; "
        "print(json.dumps(list(Resource.objects.values_list('url', 'step', 'blob_digest'))))"
    )
    return [Ended(*row) for row in json.loads(stack.manage("shell", "--no-imports", "-c", code))]
