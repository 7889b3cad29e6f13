"""Hosts that have the same files under several names. PURE.

A pattern is a host with one gap in one of its labels: `i{0-3}.wp.com` or `{a|b|c}.tile.example.org` for these hosts,
`scontent-*.xx.fbcdn.net` for any letters, digits and hyphens in place of the star.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from resources.fetching.addressing import scopes

from ..errors import RulesError

MOST_HOSTS = 1000

SHARDS = (
    "i{0-3}.wp.com",
    "{0-3|secure}.gravatar.com",
    "lh{3-6}.googleusercontent.com",
    "encrypted-tbn{0-3}.gstatic.com",
    "{a|b|c}.tile.openstreetmap.org",
    "{a-d}.basemaps.cartocdn.com",
    "scontent-*.xx.fbcdn.net",
    "scontent-*.cdninstagram.com",
)

_PATTERN = re.compile(r"(?P<before>[a-z0-9.-]*)(?:\{(?P<choices>[a-z0-9|-]+)\}|\*)(?P<after>[a-z0-9.-]*)", re.ASCII)
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)
_NUMBERS = re.compile(r"([0-9]{1,4})-([0-9]{1,4})", re.ASCII)
_LETTERS = re.compile(r"([a-z])-([a-z])", re.ASCII)
_ANY = "[a-z0-9-]+"
_STAND_IN = "x"


class Star(NamedTuple):
    """Hosts with any text in the gap, and the one that stands for them."""

    hosts: re.Pattern[str]
    one: str


@dataclass(frozen=True, slots=True)
class Shards:
    """For each host the one that stands for it and its like."""

    hosts: Mapping[str, str]
    stars: tuple[Star, ...] = ()

    def one(self, host: str) -> str:
        found = self.hosts.get(host, host)
        for star in self.stars:
            if star.hosts.fullmatch(found):
                return self.hosts.get(star.one, star.one)
        return found


def shards(patterns: Iterable[str]) -> tuple[Shards, list[str]]:
    """The hosts of some patterns, and what is wrong with some of these: they are left out."""
    groups: list[list[str]] = []
    stars: list[Star] = []
    problems: list[str] = []
    for pattern in patterns:
        try:
            found = read(pattern)
        except RulesError as error:
            problems.append(str(error))
        else:
            stars.append(found) if isinstance(found, Star) else groups.append(found)
    return Shards(_united(groups), tuple(stars)), problems


def chosen(words: Iterable[str]) -> tuple[Shards, list[str]]:
    """SHARDS with these patterns; `!` before one takes it out. With what is wrong with some of them."""
    given = [word.strip().lower() for word in words]
    removed = {word[1:] for word in given if word.startswith("!")}
    kept = [pattern for pattern in SHARDS if pattern not in removed]
    found, problems = shards([*kept, *(word for word in given if not word.startswith("!"))])
    unknown = [f"'!{word}': there is no such built-in pattern" for word in sorted(removed.difference(SHARDS))]
    return found, problems + unknown


def read(pattern: str) -> list[str] | Star:
    """The hosts of a pattern, or its star. Raises RulesError."""
    match = _PATTERN.fullmatch(pattern)
    if match is None:
        raise RulesError(f"{pattern!r} is no host with one gap, as i{{0-3}}.example.com or img-*.example.com")
    before, after = match["before"], match["after"]
    beyond = after.partition(".")[2]
    if "." not in beyond or not _HOST.fullmatch(f"{before}{_STAND_IN}{after}"):
        raise RulesError(f"{pattern!r} must have two labels at least after the one with the gap")
    if match["choices"] is None:
        if not scopes.registrable(beyond):
            raise RulesError(f"{pattern!r} stands for the hosts of many owners")
        return Star(re.compile(re.escape(before) + _ANY + re.escape(after), re.ASCII), f"{before}{_STAND_IN}{after}")
    hosts = [f"{before}{choice}{after}" for choice in _choices(pattern, match["choices"])]
    if bad := [host for host in hosts if not _HOST.fullmatch(host)]:
        raise RulesError(f"{pattern!r} means {bad[0]!r}, which is no host")
    return hosts


def _choices(pattern: str, text: str) -> list[str]:
    found: list[str] = []
    for word in text.split("|"):
        if numbers := _NUMBERS.fullmatch(word):
            found += [str(number) for number in range(int(numbers[1]), int(numbers[2]) + 1)][: MOST_HOSTS + 1]
        elif letters := _LETTERS.fullmatch(word):
            found += [chr(code) for code in range(ord(letters[1]), ord(letters[2]) + 1)]
        else:
            found.append(word)
    if not 2 <= len(found) <= MOST_HOSTS:
        raise RulesError(f"{pattern!r} must mean two hosts at least, and {MOST_HOSTS:,} at the most")
    return found


def _united(groups: Iterable[list[str]]) -> dict[str, str]:
    """Each host's one: the first by name of all that groups join, so that the order of patterns does not matter."""
    members: dict[str, set[str]] = {}
    for group in groups:
        joined = set(group).union(*(members.get(host, ()) for host in group))
        members |= dict.fromkeys(joined, joined)
    return {host: min(joined) for host, joined in members.items()}
