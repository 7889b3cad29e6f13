"""URL rules as values, and patterns of hosts that serve the same files under several names.

A pattern is a host with one gap in one of its labels: `i{0-3}.wp.com` or `{a|b|c}.tile.example.org` for these
hosts, `scontent-*.xx.fbcdn.net` for any letters, digits and hyphens in place of the star.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

from resources.fetch.http import limit_scopes

from ..errors import RulesError
from .clearurls import ParameterNames, RulesFile

MAX_SHARD_HOSTS = 1000

BUILT_IN_SHARDS = (
    "i{0-3}.wp.com",
    "{0-3|secure}.gravatar.com",
    "lh{3-6}.googleusercontent.com",
    "encrypted-tbn{0-3}.gstatic.com",
    "{a|b|c}.tile.openstreetmap.org",
    "{a-d}.basemaps.cartocdn.com",
    "scontent-*.xx.fbcdn.net",
    "scontent-*.cdninstagram.com",
)

_SHARD_PATTERN = re.compile(
    r"(?P<before>[a-z0-9.-]*)(?:\{(?P<choices>[a-z0-9|-]+)\}|\*)(?P<after>[a-z0-9.-]*)", re.ASCII
)
_HOST_NAME = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)
_NUMBERS = re.compile(r"([0-9]{1,4})-([0-9]{1,4})", re.ASCII)
_LETTERS = re.compile(r"([a-z])-([a-z])", re.ASCII)
_STAR_TEXT = "[a-z0-9-]+"
_STAND_IN = "x"


class StarPattern(NamedTuple):
    """Hosts with any text in the gap, and the one host that represents them."""

    hosts: re.Pattern[str]
    one: str


@dataclass(frozen=True, slots=True)
class Shards:
    """The host that represents each host."""

    hosts: Mapping[str, str]
    stars: tuple[StarPattern, ...] = ()

    def one(self, host: str) -> str:
        """Returns the host that represents this one, which may be itself."""
        found = self.hosts.get(host, host)
        for star in self.stars:
            if star.hosts.fullmatch(found):
                return self.hosts.get(star.one, star.one)
        return found


def parse_shards(patterns: Iterable[str]) -> tuple[Shards, list[str]]:
    """Returns the hosts of some patterns, and the problems: patterns with one are left out."""
    groups: list[list[str]] = []
    stars: list[StarPattern] = []
    problems: list[str] = []
    for pattern in patterns:
        try:
            found = parse_shard_pattern(pattern)
        except RulesError as error:
            problems.append(str(error))
        else:
            stars.append(found) if isinstance(found, StarPattern) else groups.append(found)
    return Shards(_unite_groups(groups), tuple(stars)), problems


def choose_shards(words: Iterable[str]) -> tuple[Shards, list[str]]:
    """Returns BUILT_IN_SHARDS with these patterns added, and the problems; `!` before a pattern removes it."""
    given = [word.strip().lower() for word in words]
    removed = {word[1:] for word in given if word.startswith("!")}
    kept = [pattern for pattern in BUILT_IN_SHARDS if pattern not in removed]
    found, problems = parse_shards([*kept, *(word for word in given if not word.startswith("!"))])
    unknown = [f"'!{word}': there is no such built-in pattern" for word in sorted(removed.difference(BUILT_IN_SHARDS))]
    return found, problems + unknown


def parse_shard_pattern(pattern: str) -> list[str] | StarPattern:
    """Returns the hosts of a pattern, or its star. Raises RulesError."""
    match = _SHARD_PATTERN.fullmatch(pattern)
    if match is None:
        raise RulesError(f"{pattern!r} is no host with one gap, as i{{0-3}}.example.com or img-*.example.com")
    before, after = match["before"], match["after"]
    beyond = after.partition(".")[2]
    if "." not in beyond or not _HOST_NAME.fullmatch(f"{before}{_STAND_IN}{after}"):
        raise RulesError(f"{pattern!r} must have two labels at least after the one with the gap")
    if match["choices"] is None:
        if not limit_scopes.registrable_domain(beyond):
            raise RulesError(f"{pattern!r} stands for the hosts of many owners")
        return StarPattern(
            re.compile(re.escape(before) + _STAR_TEXT + re.escape(after), re.ASCII), f"{before}{_STAND_IN}{after}"
        )
    hosts = [f"{before}{choice}{after}" for choice in _expand_choices(pattern, match["choices"])]
    if bad := [host for host in hosts if not _HOST_NAME.fullmatch(host)]:
        raise RulesError(f"{pattern!r} means {bad[0]!r}, which is no host")
    return hosts


def _expand_choices(pattern: str, text: str) -> list[str]:
    found: list[str] = []
    for word in text.split("|"):
        if numbers := _NUMBERS.fullmatch(word):
            found += [str(number) for number in range(int(numbers[1]), int(numbers[2]) + 1)][: MAX_SHARD_HOSTS + 1]
        elif letters := _LETTERS.fullmatch(word):
            found += [chr(code) for code in range(ord(letters[1]), ord(letters[2]) + 1)]
        else:
            found.append(word)
    if not 2 <= len(found) <= MAX_SHARD_HOSTS:
        raise RulesError(f"{pattern!r} must mean two hosts at least, and {MAX_SHARD_HOSTS:,} at the most")
    return found


def _unite_groups(groups: Iterable[list[str]]) -> dict[str, str]:
    """Maps each host to the first, by name, of all hosts that groups join: the order of patterns does not matter."""
    members: dict[str, set[str]] = {}
    for group in groups:
        joined = set(group).union(*(members.get(host, ()) for host in group))
        members |= dict.fromkeys(joined, joined)
    return {host: min(joined) for host, joined in members.items()}


RULES_VERSION = 2
"""The version of the spelling and the built-in rules: raise it with each change, so that stored URLs get new keys."""


@dataclass(frozen=True, eq=False)
class LearntRules:
    """Rules that admins have approved: hosts that are the same, and parameters by host whose values do not matter."""

    shards: Shards = field(default_factory=lambda: Shards({}))
    parameters: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.shards.hosts or self.shards.stars or self.parameters)


@dataclass(frozen=True, eq=False)
class UrlRules:
    """All rules in force. The rules of signatures and of spelling always apply."""

    tracking: ParameterNames
    shards: Shards
    file: RulesFile = field(default_factory=RulesFile)
    learnt: LearntRules = field(default_factory=LearntRules)

    @cached_property
    def fingerprint(self) -> str:
        """A digest that is equal for rules that give the same keys."""
        parts = (
            RULES_VERSION,
            sorted(self.tracking.whole),
            self.tracking.beginnings,
            _list_shards(self.shards),
            self.file.digest,
            _list_shards(self.learnt.shards),
            sorted((host, sorted(found)) for host, found in self.learnt.parameters.items()),
        )
        return sha256(repr(parts).encode()).hexdigest()


def build_learnt_rules(labels: Iterable[str], parameters: Iterable[tuple[str, str]]) -> tuple[LearntRules, list[str]]:
    """Builds rules from patterns of hosts (see `parse_shards`), and pairs of host and parameter; also the problems."""
    by_host: dict[str, frozenset[str]] = {}
    for host, name in parameters:
        by_host[host] = by_host.get(host, frozenset()) | {name}
    found, problems = parse_shards(labels)
    return LearntRules(found, by_host), problems


def _list_shards(found: Shards) -> tuple[object, ...]:
    return sorted(found.hosts.items()), sorted((star.hosts.pattern, star.one) for star in found.stars)
