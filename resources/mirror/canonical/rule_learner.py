"""Learns rules from what URLs gave: which parameter, or which label of a host, never makes a difference. PURE.

Proposes only: an admin decides. URLs that differ in one thing alone and gave the same content speak for a rule, those
that differ in it alone and gave different ones speak against it; one such pair is enough for no rule. Content that a
host gives for many things (an empty picture, a page that asks to sign in) says nothing of any of them.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import NamedTuple

from resources.fetching.addressing import scopes, targets
from resources.fetching.addressing.targets import MAX_HOP_BYTES, Target
from resources.fetching.errors import FetchError

from ..errors import RulesError
from . import shards
from .parameters import name_of

ENOUGH = 5
"""Contents that must each have come from several URLs before anything is proposed."""
MOST_EXAMPLES = 5
MOST_PARAMETERS = 20
"""Of one URL; those with more are of no use here."""
MOST_NAME = 200
MOST_HOST = 255
MOST_VALUES = 12
"""Of one place, that are compared with one another."""


class Observation(NamedTuple):
    """A URL as it is under the rules that were not learnt (see `urls.plain`), and the digest of what it gave."""

    url: str
    blob_digest: str


class Difference(NamedTuple):
    """What makes the difference: a parameter of a host, or a label of it, for which `{}` stands in the host then."""

    kind: str
    host: str
    name: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a rule and against it. A pair is two URLs."""

    contents: int = 0
    values: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    against: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule, as `knowing.models.Rule` has it, and why."""

    kind: str
    host: str
    name: str
    evidence: Evidence


@dataclass(slots=True)
class _Pair:
    """Two values of one difference: how often they gave the same, and URLs that show it."""

    contents: set[str] = field(default_factory=set)
    examples: list[tuple[str, str]] = field(default_factory=list)
    against: list[tuple[str, str]] = field(default_factory=list)


_Places = dict[str, dict[str, Observation]]
"""By everything else of the URL: by the value, what it gave."""
_Pairs = Mapping[tuple[str, str], _Pair]


def propose(observations: Iterable[Observation]) -> list[Proposal]:
    """The rules that enough speaks for and nothing against."""
    found = []
    for difference, places in _differences(observations).items():
        pairs = _pairs(places)
        if difference.kind == "parameter":
            evidence = _evidence(pairs)
            if evidence.contents >= ENOUGH and not evidence.against:
                found.append(Proposal(*difference, evidence))
        else:
            found += _hosts(difference, pairs)
    return found


def examine(
    kind: str, host: str, name: str, observations: Iterable[Observation], recent: Container[str] | None = None
) -> Evidence:
    """What speaks for a rule that there is, and against it: with `recent`, only pairs that have one of these URLs."""
    before, labels, after = parts(host)
    wanted = Difference(kind, host if kind == "parameter" else f"{before}{{}}{after}", name)
    pairs = _pairs(_differences(observations, wanted).get(wanted, {}), recent)
    if kind == "parameter":
        return _evidence(pairs)
    return _evidence({pair: said for pair, said in pairs.items() if set(pair) <= set(labels)})


def parts(pattern: str) -> tuple[str, list[str], str]:
    """A learnt pattern of hosts: what is before its gap, the labels in it, and what is after it."""
    before, _, rest = pattern.partition("{")
    inner, _, after = rest.partition("}")
    return before, inner.split("|"), after


def _differences(observations: Iterable[Observation], only: Difference | None = None) -> dict[Difference, _Places]:
    """What each difference gave; of all that there are, or of one alone."""
    found: dict[Difference, _Places] = defaultdict(dict)
    ways = [way for kind, way in _WAYS.items() if only is None or only.kind == kind]
    for observation in observations:
        try:
            target = targets.parse(observation.url, max_bytes=MAX_HOP_BYTES)
        except FetchError:
            continue
        for difference, place, value in chain.from_iterable(way(target) for way in ways):
            if only is None or only == difference:
                found[difference].setdefault(place, {})[value] = observation
    return found


def _by_parameter(target: Target) -> Iterator[tuple[Difference, str, str]]:
    pieces = target.query.split("&") if target.query else []
    names = [name_of(piece) for piece in pieces]
    if len(pieces) > MOST_PARAMETERS:
        return
    for index, (name, piece) in enumerate(zip(names, pieces, strict=True)):
        if name and "=" in piece and len(name) <= MOST_NAME and names.count(name) == 1:
            place = "&".join([*pieces[:index], name, *pieces[index + 1 :]])
            yield Difference("parameter", target.host, name), f"{target.origin}{target.path}?{place}", piece


def _by_label(target: Target) -> Iterator[tuple[Difference, str, str]]:
    if target.is_address or "." not in target.host:
        return
    own = scopes.registrable(target.host)
    if not own or own == target.host:
        return
    labels = target.host.removesuffix(f".{own}").split(".")
    for index, label in enumerate(labels):
        host = ".".join([*labels[:index], "{}", *labels[index + 1 :], own])
        place = f"{target.scheme} {target.port} {target.path_and_query}"
        yield Difference("label", host, ""), place, label


_WAYS = {"parameter": _by_parameter, "label": _by_label}


def _pairs(places: _Places, recent: Container[str] | None = None) -> dict[tuple[str, str], _Pair]:
    """Values that occur at the same place, two by two. Contents of several places count for none."""
    common = _common(places)
    found: dict[tuple[str, str], _Pair] = defaultdict(_Pair)
    for values in places.values():
        for pair in combinations(sorted(values)[:MOST_VALUES], 2):
            first, second = (values[value] for value in pair)
            if first.blob_digest != second.blob_digest:
                if recent is None or first.url in recent or second.url in recent:
                    found[pair].against.append((first.url, second.url))
            elif first.blob_digest not in common:
                found[pair].contents.add(first.blob_digest)
                found[pair].examples.append((first.url, second.url))
    return found


def _common(places: _Places) -> set[str]:
    seen: set[str] = set()
    common: set[str] = set()
    for values in places.values():
        here = {observation.blob_digest for observation in values.values()}
        common |= here & seen
        seen |= here
    return common


def _evidence(pairs: _Pairs) -> Evidence:
    said = [pairs[pair] for pair in sorted(pairs)]
    spoken = [pair for pair in sorted(pairs) if pairs[pair].contents]
    return Evidence(
        contents=len(set().union(*(pair.contents for pair in said))),
        values=tuple(sorted({value.partition("=")[2] or value for pair in spoken for value in pair})[:MOST_VALUES]),
        examples=_shown(pair.examples for pair in said),
        against=_shown(pair.against for pair in said),
    )


def _shown(many: Iterable[Sequence[tuple[str, str]]]) -> tuple[tuple[str, str], ...]:
    """Some pairs of URLs, no two of them with the same paths."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for first, second in (pair for one in many for pair in one):
        found.setdefault((first.partition("?")[0], second.partition("?")[0]), (first, second))
        if len(found) == MOST_EXAMPLES:
            break
    return tuple(found.values())


def _hosts(difference: Difference, pairs: _Pairs) -> Iterator[Proposal]:
    """Labels that are joined by enough, two by two, where nothing speaks against any two of them."""
    joined: dict[str, set[str]] = {}
    for pair, said in sorted(pairs.items()):
        if len(said.contents) >= ENOUGH and not said.against:
            group = set(pair).union(*(joined.get(label, ()) for label in pair))
            joined |= dict.fromkeys(group, group)
    for labels in {tuple(sorted(group)) for group in joined.values()}:
        evidence = _evidence({pair: said for pair, said in pairs.items() if set(pair) <= set(labels)})
        host = difference.host.replace("{}", f"{{{'|'.join(labels)}}}")
        if not evidence.against and _means(host, {difference.host.replace("{}", label) for label in labels}):
            yield Proposal("label", host, "", evidence)


def _means(pattern: str, hosts: set[str]) -> bool:
    """Whether the pattern can be kept, and is read as just these hosts: a label such as 1-9 would be many."""
    try:
        found = shards.read(pattern)
    except RulesError:
        return False
    return len(pattern) <= MOST_HOST and not isinstance(found, shards.Star) and set(found) == hosts
