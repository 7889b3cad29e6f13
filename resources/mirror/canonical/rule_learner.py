"""Learns URL rules: query parameters, and labels of hosts, that never make a difference.

Only proposes rules: an admin decides. Two URLs that differ in one thing alone speak for a rule if they gave the
same content, and against it if they gave different ones; one pair against a rule is enough to drop it. Content that
a host gives for many things (an empty picture, a sign-in page) proves nothing about any of them.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import NamedTuple

from resources.fetch.http import limit_scopes, url_syntax
from resources.fetch.http.messages import FetchError
from resources.fetch.http.url_syntax import MAX_REDIRECT_URL_BYTES, Target

from ..errors import RulesError
from . import rules
from .clearurls import parameter_name

MIN_CONTENTS = 5
"""Contents that must each have come from several URLs before a rule is proposed."""
MAX_EXAMPLES = 5
MAX_PARAMETERS = 20
"""Of one URL; URLs with more are ignored."""
MAX_NAME_CHARACTERS = 200
MAX_PATTERN_CHARACTERS = 255
MAX_VALUES = 12
"""Of one place; they are compared with one another."""


class UrlObservation(NamedTuple):
    """A URL in its form without learnt rules (see `urls.canonicalise_unlearnt`), and the digest of its content."""

    url: str
    blob_digest: str


class UrlDifference(NamedTuple):
    """The one thing in which URLs differ: a parameter of a host, or a label of it (`{}` in `host`)."""

    kind: str
    host: str
    name: str


@dataclass(frozen=True, slots=True)
class RuleEvidence:
    """The evidence for and against a rule. A pair is two URLs."""

    contents: int = 0
    values: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    against: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RuleProposal:
    """A rule with the fields of `mirror.models.Rule`, and its evidence."""

    kind: str
    host: str
    name: str
    evidence: RuleEvidence


@dataclass(slots=True)
class _ValuePair:
    """Two values of one difference: the contents that both gave, and example URLs."""

    contents: set[str] = field(default_factory=set)
    examples: list[tuple[str, str]] = field(default_factory=list)
    against: list[tuple[str, str]] = field(default_factory=list)


_Places = dict[str, dict[str, UrlObservation]]
"""Observations by the rest of the URL, then by value."""
_ValuePairs = Mapping[tuple[str, str], _ValuePair]


def propose_rules(observations: Iterable[UrlObservation]) -> list[RuleProposal]:
    """Returns the rules with enough evidence for them and none against them."""
    found = []
    for difference, places in _group_by_difference(observations).items():
        pairs = _compare_values(places)
        if difference.kind == "parameter":
            evidence = _sum_evidence(pairs)
            if evidence.contents >= MIN_CONTENTS and not evidence.against:
                found.append(RuleProposal(*difference, evidence))
        else:
            found += _propose_hosts(difference, pairs)
    return found


def examine_rule(
    kind: str, host: str, name: str, observations: Iterable[UrlObservation], recent: Container[str] | None = None
) -> RuleEvidence:
    """Returns the evidence for and against an existing rule; with `recent`, only pairs with one of these URLs."""
    before, labels, after = split_pattern(host)
    wanted = UrlDifference(kind, host if kind == "parameter" else f"{before}{{}}{after}", name)
    pairs = _compare_values(_group_by_difference(observations, wanted).get(wanted, {}), recent)
    if kind == "parameter":
        return _sum_evidence(pairs)
    return _sum_evidence({pair: found for pair, found in pairs.items() if set(pair) <= set(labels)})


def split_pattern(pattern: str) -> tuple[str, list[str], str]:
    """Splits a learnt pattern of hosts into the text before its gap, the labels in it, and the text after it."""
    before, _, rest = pattern.partition("{")
    inner, _, after = rest.partition("}")
    return before, inner.split("|"), after


def _group_by_difference(
    observations: Iterable[UrlObservation], only: UrlDifference | None = None
) -> dict[UrlDifference, _Places]:
    """Groups the observations by difference; with `only`, by that one alone."""
    found: dict[UrlDifference, _Places] = defaultdict(dict)
    ways = [way for kind, way in _DIFFERENCE_FINDERS.items() if only is None or only.kind == kind]
    for observation in observations:
        try:
            target = url_syntax.parse_target(observation.url, max_bytes=MAX_REDIRECT_URL_BYTES)
        except FetchError:
            continue
        for difference, place, value in chain.from_iterable(way(target) for way in ways):
            if only is None or only == difference:
                found[difference].setdefault(place, {})[value] = observation
    return found


def _parameter_differences(target: Target) -> Iterator[tuple[UrlDifference, str, str]]:
    pieces = target.query.split("&") if target.query else []
    names = [parameter_name(piece) for piece in pieces]
    if len(pieces) > MAX_PARAMETERS:
        return
    for index, (name, piece) in enumerate(zip(names, pieces, strict=True)):
        if name and "=" in piece and len(name) <= MAX_NAME_CHARACTERS and names.count(name) == 1:
            place = "&".join([*pieces[:index], name, *pieces[index + 1 :]])
            yield UrlDifference("parameter", target.host, name), f"{target.origin}{target.path}?{place}", piece


def _label_differences(target: Target) -> Iterator[tuple[UrlDifference, str, str]]:
    if target.is_address or "." not in target.host:
        return
    own = limit_scopes.registrable_domain(target.host)
    if not own or own == target.host:
        return
    labels = target.host.removesuffix(f".{own}").split(".")
    for index, label in enumerate(labels):
        host = ".".join([*labels[:index], "{}", *labels[index + 1 :], own])
        place = f"{target.scheme} {target.port} {target.path_and_query}"
        yield UrlDifference("label", host, ""), place, label


_DIFFERENCE_FINDERS = {"parameter": _parameter_differences, "label": _label_differences}


def _compare_values(places: _Places, recent: Container[str] | None = None) -> dict[tuple[str, str], _ValuePair]:
    """Compares the values that occur at the same place, two by two. Contents of several places are ignored."""
    counts = Counter(chain.from_iterable({one.blob_digest for one in values.values()} for values in places.values()))
    found: dict[tuple[str, str], _ValuePair] = defaultdict(_ValuePair)
    for values in places.values():
        for pair in combinations(sorted(values)[:MAX_VALUES], 2):
            first, second = (values[value] for value in pair)
            if first.blob_digest != second.blob_digest:
                if recent is None or first.url in recent or second.url in recent:
                    found[pair].against.append((first.url, second.url))
            elif counts[first.blob_digest] == 1:
                found[pair].contents.add(first.blob_digest)
                found[pair].examples.append((first.url, second.url))
    return found


def _sum_evidence(pairs: _ValuePairs) -> RuleEvidence:
    found = [pairs[pair] for pair in sorted(pairs)]
    spoken = [pair for pair in sorted(pairs) if pairs[pair].contents]
    return RuleEvidence(
        contents=len(set().union(*(pair.contents for pair in found))),
        values=tuple(sorted({value.partition("=")[2] or value for pair in spoken for value in pair})[:MAX_VALUES]),
        examples=_choose_examples(pair.examples for pair in found),
        against=_choose_examples(pair.against for pair in found),
    )


def _choose_examples(many: Iterable[Sequence[tuple[str, str]]]) -> tuple[tuple[str, str], ...]:
    """Chooses some pairs of URLs, no two with the same paths."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for first, second in (pair for one in many for pair in one):
        found.setdefault((first.partition("?")[0], second.partition("?")[0]), (first, second))
        if len(found) == MAX_EXAMPLES:
            break
    return tuple(found.values())


def _propose_hosts(difference: UrlDifference, pairs: _ValuePairs) -> Iterator[RuleProposal]:
    """Proposes hosts from labels that enough contents join, two by two, if no pair among them speaks against it."""
    joined: dict[str, set[str]] = {}
    for pair, found in sorted(pairs.items()):
        if len(found.contents) >= MIN_CONTENTS and not found.against:
            group = set(pair).union(*(joined.get(label, ()) for label in pair))
            joined |= dict.fromkeys(group, group)
    for labels in {tuple(sorted(group)) for group in joined.values()}:
        evidence = _sum_evidence({pair: found for pair, found in pairs.items() if set(pair) <= set(labels)})
        host = difference.host.replace("{}", f"{{{'|'.join(labels)}}}")
        if not evidence.against and _is_exact_pattern(host, {difference.host.replace("{}", label) for label in labels}):
            yield RuleProposal("label", host, "", evidence)


def _is_exact_pattern(pattern: str, hosts: set[str]) -> bool:
    """Tells whether the pattern can be stored and means exactly these hosts: a label such as 1-9 would mean many."""
    try:
        found = rules.parse_shard_pattern(pattern)
    except RulesError:
        return False
    return len(pattern) <= MAX_PATTERN_CHARACTERS and not isinstance(found, rules.StarPattern) and set(found) == hosts
