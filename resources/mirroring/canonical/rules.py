"""The rules for which URLs are one, as values. PURE."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

from .clearurls import RulesFile
from .parameters import Names, names
from .shards import Shards, chosen, shards

VERSION = 2
"""Of the spelling and the built-in rules: counted up with each change of them, so that stored URLs get new keys."""


@dataclass(frozen=True, eq=False)
class Learnt:
    """Rules that admins have approved: hosts that are one, and parameters by host whose values do not matter."""

    shards: Shards = field(default_factory=lambda: Shards({}))
    parameters: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.shards.hosts or self.shards.stars or self.parameters)


@dataclass(frozen=True, eq=False)
class Rules:
    """All rules that are in force. Those of signatures and of spelling always are."""

    tracking: Names
    shards: Shards
    file: RulesFile = field(default_factory=RulesFile)
    learnt: Learnt = field(default_factory=Learnt)

    @cached_property
    def fingerprint(self) -> str:
        """The same for rules that give the same keys."""
        said = (
            VERSION,
            sorted(self.tracking.whole),
            self.tracking.beginnings,
            _listed(self.shards),
            self.file.digest,
            _listed(self.learnt.shards),
            sorted((host, sorted(found)) for host, found in self.learnt.parameters.items()),
        )
        return sha256(repr(said).encode()).hexdigest()


def learnt(labels: Iterable[str], parameters: Iterable[tuple[str, str]]) -> tuple[Learnt, list[str]]:
    """Rules from patterns of hosts (see `shards`) and from hosts with a parameter each; what is wrong with some."""
    by_host: dict[str, frozenset[str]] = {}
    for host, name in parameters:
        by_host[host] = by_host.get(host, frozenset()) | {name}
    found, problems = shards(labels)
    return Learnt(found, by_host), problems


def built_in(file: RulesFile | None = None) -> Rules:
    """The rules without any settings, for tests and tools."""
    return Rules(names(())[0], chosen(())[0], file or RulesFile())


def _listed(found: Shards) -> tuple[object, ...]:
    return sorted(found.hosts.items()), sorted((star.hosts.pattern, star.one) for star in found.stars)
