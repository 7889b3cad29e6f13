"""Lists of URLs of a corpus as people report them: most of them seen before, some in disguise, some that fail."""

from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import urlsplit

from tests.hostile.corpora import Corpus
from tests.hostile.corpus import answer_to

SIZE, LARGE_SIZE = 10_000, 1_000_000
VOUCHING = 4
"""Hosts that have all files with validators: each has to be found right a few times."""
FAILING = ("/s/404", "/s/410", "/s/403", "/s/500", "/loop", "/half/1/1000")


@dataclass(frozen=True, slots=True)
class Reported:
    """A list: 70 % seen URLs, 15 % variants, 5 % the same bytes, 5 % with validators, 3 % failing, 2 % large."""

    corpus: Corpus
    number: int

    def _share(self, percent: int) -> int:
        return self.number * percent // 100

    def base(self) -> list[str]:
        """The URLs that are reported first: all of them different."""
        validated = [self.corpus.url(n % VOUCHING, f"/v/{n}/{SIZE}/a.jpg") for n in range(self._share(5))]
        return validated + [self.corpus.url(n, f"/c/{n}/{SIZE}/a.jpg") for n in range(self._share(5), self._share(70))]

    def others(self) -> list[str]:
        """The new URLs."""
        base, validated = self._share(70), self._share(5)
        vouched = [self.corpus.url(n % VOUCHING, f"/v/{n}/{SIZE}/b.jpg") for n in range(validated)]
        same = [self.corpus.url(n + 1, f"/c/{n}/{SIZE}/b.jpg") for n in range(base - self._share(5), base)]
        failing = [self.corpus.url(n, f"{FAILING[n % len(FAILING)]}/{n}") for n in range(self._share(3))]
        large = [self.corpus.url(n, f"/c/{base + n}/{LARGE_SIZE}/c.mp4") for n in range(self._share(2))]
        return [*vouched, *same, *failing, *large]

    def everything(self) -> list[str]:
        """The list: seen URLs, the same with tracking parameters, and the others."""
        variants = [
            f"{url}?utm_source=news&fbclid={place}" for place, url in enumerate(self.base()[-self._share(15) :])
        ]
        return [*self.base(), *variants, *self.others()]

    def digests(self) -> dict[str, str]:
        """The content of each URL that has any."""
        return {url: found for url in [*self.base(), *self.others()] if (found := digest_of(url))}


def digest_of(url: str) -> str:
    """The digest of the URL's real content; empty for a failing one."""
    answer = answer_to(urlsplit(url).path)
    return sha256(answer.body).hexdigest() if answer.body and not answer.is_half else ""
