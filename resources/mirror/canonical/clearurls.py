"""Removes tracking parameters from keys: built-in names, and rules from a file in the format of ClearURLs.

Built-in names are case-sensitive; none is listed by which a site may select its content.

The file is data.min.json. Its rules change keys only. `rules`, `rawRules` and `referralMarketing` are removed from
the key, `exceptions` are obeyed, a `completeProvider` is not mirrored. `redirections` are read and not followed:
the address itself is fetched, and may not answer with a redirect; its target is learnt then.

The expressions are run by RE2 in time linear in the length of the URL, so none can hang. Expressions that RE2 does
not support (lookaround, backreferences) are reported as problems and ignored.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

import re2

from resources.fetch.http import url_syntax
from resources.fetch.http.messages import FetchError
from resources.fetch.http.url_syntax import MAX_REDIRECT_URL_BYTES, Target

from ..errors import RulesError, UrlError

_NAME_PATTERN = re.compile(r"!?[A-Za-z0-9_.~$@:-](?:[A-Za-z0-9_.~$@:-]{1,99}\*?)?", re.ASCII)

_TRACKING_TEXT = """
utm_*
fbclid fb_action_ids fb_action_types fb_ref fb_source
gclid gclsrc dclid gbraid wbraid gad_source gad_campaignid srsltid _ga _gac _gl
msclkid yclid ysclid ymclid _openstat twclid ttclid li_fat_id ScCid rdt_cid epik igshid igsh
mc_cid mc_eid mc_tc mkt_tok ml_subscriber ml_subscriber_hash vero_conv vero_id oly_anon_id oly_enc_id
_hsenc _hsmi __hssc __hstc __hsfp hsCtaTracking
hsa_acc hsa_ad hsa_cam hsa_grp hsa_kw hsa_mt hsa_net hsa_src hsa_tgt hsa_ver
pk_campaign pk_cid pk_content pk_cpn pk_keyword pk_kwd pk_medium pk_source piwik_campaign piwik_keyword piwik_kwd
mtm_campaign mtm_cid mtm_content mtm_group mtm_keyword mtm_medium mtm_placement mtm_source
matomo_campaign matomo_keyword matomo_kwd
at_campaign at_medium at_custom1 at_custom2 at_custom3 at_custom4 wt_zmc
_kx bsft_clkid bsft_eid bsft_uid trk_contact trk_msg trk_module trk_sid s_kwcid ef_id
_branch_match_id _branch_referrer guccounter guce_referrer guce_referrer_sig
rb_clickid wickedid irclickid irgwc cjevent zanpid dicbo tblci
"""
TRACKING_PARAMETERS = tuple(_TRACKING_TEXT.split())


@dataclass(frozen=True, slots=True)
class ParameterNames:
    """Names of parameters: whole names, and beginnings of names."""

    whole: frozenset[str] = frozenset()
    beginnings: tuple[str, ...] = ()

    def have(self, name: str) -> bool:
        return name in self.whole or name.startswith(self.beginnings)


def parse_tracking_names(words: Iterable[str]) -> tuple[ParameterNames, list[str]]:
    """Returns TRACKING_PARAMETERS with these words applied, and the problems: words with one are left out.

    A word is a name, or the beginning of names and `*`; `!` before it removes it from TRACKING_PARAMETERS.
    """
    added, removed, problems = set(TRACKING_PARAMETERS), set(), []
    for word in words:
        if not _NAME_PATTERN.fullmatch(word):
            problems.append(f"{word!r} is neither a parameter's name nor the beginning of one with *")
        elif not word.startswith("!"):
            added.add(word)
        elif word[1:] in TRACKING_PARAMETERS:
            removed.add(word[1:])
        else:
            problems.append(f"{word!r}: there is no such name in the built-in list")
    found = added - removed
    beginnings = tuple(sorted(word[:-1] for word in found if word.endswith("*")))
    return ParameterNames(frozenset(word for word in found if not word.endswith("*")), beginnings), problems


def parameter_name(piece: str) -> str:
    """Returns the name in `name=value`."""
    return piece.partition("=")[0]


MAX_RULES_FILE_BYTES = 5_000_000
MAX_PROVIDERS = 5_000
MAX_EXPRESSIONS = 500
"""Of one kind and provider."""
MAX_EXPRESSION_CHARACTERS = 2_000
"""Of one expression."""
MAX_PROBLEMS = 20
MAX_PASSES = 3
REMEMBERED_NAMES = 20_000
LONGEST_REMEMBERED_NAME = 40

_EXPRESSION_BYTES = 1 << 20
_INDEX_BYTES = 32 << 20
_KINDS = ("rules", "referralMarketing", "rawRules", "exceptions", "redirections")


@dataclass(frozen=True, slots=True, eq=False)
class RulesProvider:
    """The rules of one site: the parts that are removed from its URLs."""

    name: str
    is_refused: bool
    names: tuple[Any, ...]
    raw: tuple[Any, ...]
    exceptions: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RulesFile:
    """The providers of a file, and an `index` that finds those of a URL in one search. `digest` is the file's."""

    providers: tuple[RulesProvider, ...] = ()
    index: Any = None
    digest: str = ""


class RulesFileReader:
    """Reads one file and collects the problems in it."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def providers(self, document: object) -> Iterator[tuple[str, RulesProvider]]:
        """Yields each provider with the expression for its URLs. Raises RulesError if the document is no such file."""
        given = document.get("providers") if isinstance(document, dict) else None
        if not isinstance(given, dict):
            raise RulesError("it has no object 'providers', as ClearURLs' data.min.json has")
        if len(given) > MAX_PROVIDERS:
            raise RulesError(f"it has more than {MAX_PROVIDERS:,} providers")
        for name, entry in given.items():
            if (found := self._provider(name[:100], entry)) is not None:
                yield found

    def _provider(self, name: str, entry: object) -> tuple[str, RulesProvider] | None:
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
        return pattern, RulesProvider(name, refused, names, found["rawRules"], found["exceptions"])

    def _expressions(self, name: str, kind: str, entry: Mapping[str, object]) -> tuple[Any, ...]:
        given = entry.get(kind, [])
        if not isinstance(given, list) or len(given) > MAX_EXPRESSIONS:
            self.problems.append(f"{name}: {kind} must be a list of at most {MAX_EXPRESSIONS} expressions")
            return ()
        found = (self._expression(name, kind, text) for text in given)
        return tuple(one for one in found if one is not None)

    def _expression(self, name: str, kind: str, text: object) -> Any:
        if not isinstance(text, str) or not 0 < len(text) <= MAX_EXPRESSION_CHARACTERS:
            limit = f"{MAX_EXPRESSION_CHARACTERS:,} characters"
            self.problems.append(f"{name}: {kind} has an entry that is no expression of 1 to {limit}")
            return None
        try:
            return re2.compile(text, _re2_options(_EXPRESSION_BYTES))
        except (re2.error, UnicodeError) as error:
            self.problems.append(f"{name}: {kind} has {text[:100]!r}: {_error_text(error)}")
            return None


def parse_rules_file(text: str) -> tuple[RulesFile, list[str]]:
    """Returns the rules in a file's text, and the problems: rules with one are left out. Raises RulesError."""
    if len(text) > MAX_RULES_FILE_BYTES:
        raise RulesError(f"it has more than {MAX_RULES_FILE_BYTES:,} characters")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RulesError(f"it is no JSON: {error}") from error
    reading = RulesFileReader()
    found = list(reading.providers(document))
    index = _build_index([pattern for pattern, _ in found])
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    rules = RulesFile(tuple(provider for _, provider in found), index, digest)
    more = len(reading.problems) - MAX_PROBLEMS
    return rules, [*reading.problems[:MAX_PROBLEMS], *([f"and {more:,} more like these"] if more > 0 else [])]


def _build_index(patterns: Sequence[str]) -> Any:
    """Builds the search for all patterns that match a URL. Raises RulesError."""
    index = re2.Set.SearchSet(_re2_options(_INDEX_BYTES))
    try:
        for pattern in patterns:
            index.Add(pattern)
        if patterns:
            index.Compile()
    except re2.error as error:
        raise RulesError(f"its urlPatterns are too much together: {_error_text(error)}") from error
    return index


def apply_rules_file(rules: RulesFile, target: Target, text_of: Callable[[Target], str]) -> Target:
    """Returns the target without the parts that the rules remove. Raises UrlError for a refused site.

    The shortened URL may match other rules, so they are applied up to MAX_PASSES times.
    """
    for _ in range(MAX_PASSES if rules.providers else 0):
        text = text_of(target)
        found = target
        for number in sorted(rules.index.Match(text) or ()):  # None when there is none
            found = _apply_provider(rules.providers[number], found, text, text_of)
        if found == target:
            break
        target = found
    return target


def _apply_provider(provider: RulesProvider, target: Target, text: str, text_of: Callable[[Target], str]) -> Target:
    if any(expression.search(text) for expression in provider.exceptions):
        return target
    if provider.is_refused:
        raise UrlError(f"It cannot be mirrored: the rules file refuses all of {provider.name}.")
    if target.query is not None and provider.names:
        kept = [piece for piece in target.query.split("&") if not _removes_parameter(provider, parameter_name(piece))]
        target = replace(target, query="&".join(kept) or None)
    for expression in provider.raw:
        target = _remove_match(expression, target, text_of)
    return target


def _removes_parameter(provider: RulesProvider, name: str) -> bool:
    matches = _matches_name if len(name) <= LONGEST_REMEMBERED_NAME else _matches_name.__wrapped__
    return matches(provider, name)


@lru_cache(maxsize=REMEMBERED_NAMES)
def _matches_name(provider: RulesProvider, name: str) -> bool:
    return any(expression.fullmatch(name) for expression in provider.names)


def _remove_match(expression: Any, target: Target, text_of: Callable[[Target], str]) -> Target:
    """Removes the match from the target, provided that the origin stays the same."""
    text = text_of(target)
    cut = expression.sub("", text)
    if cut == text:
        return target
    try:
        found = url_syntax.parse_target(cut, max_bytes=MAX_REDIRECT_URL_BYTES)
    except FetchError:
        return target
    same = (found.host, found.port) == (url_syntax.parse_target(text, max_bytes=MAX_REDIRECT_URL_BYTES).origin[1:])
    return replace(target, path=found.path, query=found.query or None) if same else target


def _re2_options(most_bytes: int) -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = most_bytes
    return options


def _error_text(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
