"""Computes the marks by which entries of different feeds are recognised as one story.

An entry has a mark of its id, one of its link, and several of its text: texts that are nearly the same share one of
these with a probability that grows steeply with their likeness (MinHash, in bands).

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from rensa import RMinHash

SHINGLE_WORDS, MIN_SHINGLES = 3, 40
MIN_LIKENESS = 0.8
"""The least share of their shingles that two texts of one story have in common."""
MIN_UNTITLED_SHINGLES = 200
"""Texts of fewer are one story only under the same title: notices of paywalls are alike under all titles."""
_BANDS, _ROWS = 8, 8
_SEED = 20_260
_WAY_BITS = 2


class Way(IntEnum):
    """The ways in which entries are recognised as one story, the surest first. A mark ends with its way."""

    ID = 0
    LINK = 1
    TEXT = 2


def mark_id(written: str) -> Iterator[int]:
    """Yields the mark of an id that no other publisher gives: an address of the web, a `tag:` or a UUID."""
    if _UNIQUE_ID.fullmatch(written) or _names_page(written):
        yield _make_mark(Way.ID, written)


def mark_link(link: str) -> Iterator[int]:
    """Yields the mark of a link, unless it leads to a whole site."""
    if canonical := simplify_link(link):
        yield _make_mark(Way.LINK, canonical)


def mark_text(parts: Iterable[str]) -> Iterator[int]:
    """Yields the marks of a text of these parts, unless it is short."""
    shingles = split_shingles(parts)
    if len(shingles) < MIN_SHINGLES:
        return
    sketch = RMinHash(_BANDS * _ROWS, _SEED)
    sketch.update(list(shingles))
    digest = sketch.digest()
    for band in range(_BANDS):
        yield _make_mark(Way.TEXT, f"{band} {digest[band * _ROWS : (band + 1) * _ROWS]}")


def way_of(mark: int) -> Way:
    return Way(mark & ((1 << _WAY_BITS) - 1))


def _make_mark(way: Way, text: str) -> int:
    """A positive number of 63 bits, which every database has."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> (_WAY_BITS + 1) << _WAY_BITS | way


def split_shingles(parts: Iterable[str]) -> set[str]:
    """Returns each three words in a row of the parts of a text. Names and tags, which are short parts, have none."""
    found: set[str] = set()
    for part in parts:
        words = part.split()
        found.update(map(" ".join, zip(*(words[place:] for place in range(SHINGLE_WORDS)), strict=False)))
    return found


@dataclass(frozen=True, slots=True)
class StoryText:
    """The folded title of an entry, and the shingles of its title and text."""

    title: str
    shingles: frozenset[str]


def are_alike(one: StoryText, other: StoryText) -> bool:
    """Tells whether two texts are nearly the same; short ones under other titles are not."""
    fewer, more = sorted((len(one.shingles), len(other.shingles)))
    if fewer < MIN_LIKENESS * more or (fewer < MIN_UNTITLED_SHINGLES and one.title != other.title):
        return False
    common = len(one.shingles & other.shingles)
    return common >= MIN_LIKENESS * (fewer + more - common)


_UNIQUE_ID = re.compile(
    r"tag:[^\s,:]+\.[^\s,:]+,[0-9]{4}[0-9-]*:.+|urn:uuid:(?!0{8}-)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.IGNORECASE | re.ASCII,
)
_WEB_SCHEMES = frozenset({"http", "https"})
_TRACKING = re.compile(
    r"(?:utm_[^=]*|mtm_[^=]*|pk_(?:campaign|kwd|source|medium)|fbclid|gclid|dclid|gbraid|wbraid|msclkid|twclid|yclid"
    r"|igshid|mc_[ce]id|_hs(?:enc|mi)|mkt_tok|ref_src|at_(?:medium|campaign)|ns_(?:source|mchannel|campaign)|cmpid"
    r"|wt\.mc_id|__twitter_impression|ocid|xtor)(?:=.*)?",
    re.IGNORECASE | re.ASCII,
)
"""Parameters that tell where a reader came from."""


def simplify_link(link: str) -> str:
    """Returns what is the same in all links to one page; empty for those to a whole site, or to none of the web.

    Scheme, `www.`, fragment, a slash at the end, the host's case and parameters that track readers do not matter.
    """
    parts = _split_address(link)
    if parts is None:
        return ""
    query = "&".join(each for each in parts.query.split("&") if each and not _TRACKING.fullmatch(each))
    path = parts.path.rstrip("/")
    if not path and not query:
        return ""
    return f"{link_host(link)}{path}{f'?{query}' if query else ''}"


def link_host(link: str) -> str:
    """Returns the host of a link, without `www.`, and with a port that is not the usual one; empty for none."""
    parts = _split_address(link)
    if parts is None:
        return ""
    usual = {"http": 80, "https": 443}[parts.scheme]
    port = "" if parts.port in {None, usual} else f":{parts.port}"
    return f"{(parts.hostname or '').rstrip('.').removeprefix('www.')}{port}"


def _names_page(address: str) -> bool:
    parts = _split_address(address)
    if parts is None or any(sign.isspace() for sign in address):
        return False
    return bool(parts.path.strip("/") or parts.query or parts.fragment)


def _split_address(address: str) -> SplitResult | None:
    """Returns the parts of an address of the public web; None for others, such as those of a host without a domain."""
    try:
        parts = urlsplit(address.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return None
    if parts.scheme not in _WEB_SCHEMES or "." not in host.strip(".") or _is_ip_address(host):
        return None
    return parts


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def shared_links(links: Iterable[str]) -> set[str]:
    """Returns the simplified links that several entries of one document have: these identify none of them."""
    seen: set[str] = set()
    shared: set[str] = set()
    for link in links:
        canonical = simplify_link(link)
        (shared if canonical in seen else seen).add(canonical)
    return shared
