"""Rules of a file in the format of ClearURLs (data.min.json): which parameters of which sites only track. PURE.

For keys alone. `rules`, `rawRules` and `referralMarketing` are left out of them, `exceptions` are obeyed, a
`completeProvider` is not mirrored. `redirections` are read and not followed: the address itself is fetched, and may
answer something else than a redirect; where it leads is learnt then.

The expressions are RE2's, whose time is linear in the length of the URL: none can hang. Those that RE2 does not have
(looking ahead or behind, references back) are problems that are told, and count for nothing.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

import re2

from resources.fetching.addressing import targets
from resources.fetching.addressing.targets import MAX_HOP_BYTES, Target
from resources.fetching.errors import FetchError

from ..errors import RulesError, UrlError
from .parameters import name_of

MOST_BYTES = 5_000_000
MOST_PROVIDERS = 5_000
MOST_EXPRESSIONS = 500
"""Of one kind and provider."""
MOST_CHARACTERS = 2_000
"""Of one expression."""
MOST_PROBLEMS = 20
MOST_PASSES = 3
REMEMBERED = 20_000
LONGEST_REMEMBERED = 40

_EXPRESSION_BYTES = 1 << 20
_INDEX_BYTES = 32 << 20
_KINDS = ("rules", "referralMarketing", "rawRules", "exceptions", "redirections")


@dataclass(frozen=True, slots=True, eq=False)
class Provider:
    """A site, and what is left out of its URLs."""

    name: str
    is_refused: bool
    names: tuple[Any, ...]
    raw: tuple[Any, ...]
    exceptions: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RulesFile:
    """The providers of a file, `index` to find those of a URL in one go. `digest` is that of the file."""

    providers: tuple[Provider, ...] = ()
    index: Any = None
    digest: str = ""


class Reading:
    """Reads one file, and takes note of what cannot be used of it."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def providers(self, document: object) -> Iterator[tuple[str, Provider]]:
        """Each with the expression for its URLs. Raises RulesError for what is no such file at all."""
        given = document.get("providers") if isinstance(document, dict) else None
        if not isinstance(given, dict):
            raise RulesError("it has no object 'providers', as ClearURLs' data.min.json has")
        if len(given) > MOST_PROVIDERS:
            raise RulesError(f"it has more than {MOST_PROVIDERS:,} providers")
        for name, entry in given.items():
            if (found := self._provider(name[:100], entry)) is not None:
                yield found

    def _provider(self, name: str, entry: object) -> tuple[str, Provider] | None:
        if not isinstance(entry, dict) or not isinstance(entry.get("urlPattern"), str):
            self.problems.append(f"{name}: it must be an object with urlPattern")
            return None
        pattern: str = entry["urlPattern"]
        refused = entry.get("completeProvider", False)
        if not isinstance(refused, bool) or not isinstance(entry.get("forceRedirection", False), bool):
            self.problems.append(f"{name}: completeProvider and forceRedirection must be true or false")
            return None
        if self._expression(name, "urlPattern", pattern) is None:
            return None
        found = {kind: self._expressions(name, kind, entry) for kind in _KINDS}
        names = found["rules"] + found["referralMarketing"]
        return pattern, Provider(name, refused, names, found["rawRules"], found["exceptions"])

    def _expressions(self, name: str, kind: str, entry: Mapping[str, object]) -> tuple[Any, ...]:
        given = entry.get(kind, [])
        if not isinstance(given, list) or len(given) > MOST_EXPRESSIONS:
            self.problems.append(f"{name}: {kind} must be a list of at most {MOST_EXPRESSIONS} expressions")
            return ()
        found = (self._expression(name, kind, text) for text in given)
        return tuple(one for one in found if one is not None)

    def _expression(self, name: str, kind: str, text: object) -> Any:
        if not isinstance(text, str) or not 0 < len(text) <= MOST_CHARACTERS:
            self.problems.append(f"{name}: {kind} has what is no expression of 1 to {MOST_CHARACTERS:,} characters")
            return None
        try:
            return re2.compile(text, _options(_EXPRESSION_BYTES))
        except (re2.error, UnicodeError) as error:
            self.problems.append(f"{name}: {kind} has {text[:100]!r}: {_said(error)}")
            return None


def read(text: str) -> tuple[RulesFile, list[str]]:
    """The rules of a file's text, and what is wrong with some of them: these are left out. Raises RulesError."""
    if len(text) > MOST_BYTES:
        raise RulesError(f"it has more than {MOST_BYTES:,} characters")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RulesError(f"it is no JSON: {error}") from error
    reading = Reading()
    found = list(reading.providers(document))
    index = _index([pattern for pattern, _ in found])
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    rules = RulesFile(tuple(provider for _, provider in found), index, digest)
    return rules, _shortened(reading.problems)


def _index(patterns: Sequence[str]) -> Any:
    """Finds which of the patterns a URL has, all in one go. Raises RulesError."""
    index = re2.Set.SearchSet(_options(_INDEX_BYTES))
    try:
        for pattern in patterns:
            index.Add(pattern)
        if patterns:
            index.Compile()
    except re2.error as error:
        raise RulesError(f"its urlPatterns are too much together: {_said(error)}") from error
    return index


def applied(rules: RulesFile, target: Target, text_of: Callable[[Target], str]) -> Target:
    """The target without what the rules leave out. Raises UrlError for what they refuse.

    What is left may be meant by other rules: they are asked again, some times.
    """
    for _ in range(MOST_PASSES if rules.providers else 0):
        text = text_of(target)
        found = target
        for number in sorted(rules.index.Match(text) or ()):  # None when there is none
            found = _by_one(rules.providers[number], found, text, text_of)
        if found == target:
            break
        target = found
    return target


def _by_one(provider: Provider, target: Target, text: str, text_of: Callable[[Target], str]) -> Target:
    if any(expression.search(text) for expression in provider.exceptions):
        return target
    if provider.is_refused:
        raise UrlError(f"It cannot be mirrored: the rules file refuses all of {provider.name}.")
    if target.query is not None and provider.names:
        kept = [piece for piece in target.query.split("&") if not _leaves_out(provider, name_of(piece))]
        target = replace(target, query="&".join(kept) or None)
    for expression in provider.raw:
        target = _cut(expression, target, text_of)
    return target


def _leaves_out(provider: Provider, name: str) -> bool:
    return _leaves_out_short(provider, name) if len(name) <= LONGEST_REMEMBERED else _matches(provider, name)


@lru_cache(maxsize=REMEMBERED)
def _leaves_out_short(provider: Provider, name: str) -> bool:
    return _matches(provider, name)


def _matches(provider: Provider, name: str) -> bool:
    return any(expression.fullmatch(name) for expression in provider.names)


def _cut(expression: Any, target: Target, text_of: Callable[[Target], str]) -> Target:
    """The target without what the expression matches, as long as it is one of the same origin."""
    text = text_of(target)
    cut = expression.sub("", text)
    if cut == text:
        return target
    try:
        found = targets.parse(cut, max_bytes=MAX_HOP_BYTES)
    except FetchError:
        return target
    same = (found.host, found.port) == (targets.parse(text, max_bytes=MAX_HOP_BYTES).origin[1:])
    return replace(target, path=found.path, query=found.query or None) if same else target


def _options(most_bytes: int) -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = most_bytes
    return options


def _said(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _shortened(problems: list[str]) -> list[str]:
    more = len(problems) - MOST_PROBLEMS
    return problems if more <= 0 else [*problems[:MOST_PROBLEMS], f"and {more:,} more like these"]
