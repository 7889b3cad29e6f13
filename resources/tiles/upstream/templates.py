"""Addresses of another server's tiles: a URL with placeholders, as in map libraries; the work of fetching one. PURE.

Sources of the placeholders: https://leafletjs.com/reference.html#tilelayer for `{s}`, `{r}` and `{-y}`,
https://learn.microsoft.com/en-us/bingmaps/articles/bing-maps-tile-system for `{q}`.
"""

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from resources.fetch.http import url_syntax
from resources.fetch.http.allowed_ips import AddressGuard
from resources.fetch.http.limit_scopes import url_scopes
from resources.fetch.http.messages import FetchError, Head
from retry import work

from ...image_formats import TILE_FORMATS
from .. import grid
from ..errors import LayerError
from ..tile_address import Tile

PLACEHOLDERS = ("z", "x", "y", "-y", "q", "s", "r", "format")
DEFAULT_SUBDOMAINS = "abc"
MAX_SUBDOMAINS = 50

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_URL_PARTS = re.compile(r"(?P<scheme>[^:/?#{}]*)://(?P<authority>[^/?#]*)(?P<rest>.*)", re.DOTALL)
_HOST_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN_LABEL = re.compile(r"//\{s(?::[^{}]*)?\}\.")
_LONGEST_TILE = Tile("", grid.MAX_ZOOM, 2**grid.MAX_ZOOM - 1, 2 ** (grid.MAX_ZOOM - 1), 2, max(TILE_FORMATS, key=len))


@dataclass(frozen=True, slots=True)
class TileUrlTemplate:
    """A checked template. `subdomains` are the values of `{s}`, in turn."""

    text: str
    subdomains: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the template of that text. Raises LayerError that names the mistake."""
        if len(text) > url_syntax.MAX_URL_BYTES:
            raise LayerError(f"The address has more than {url_syntax.MAX_URL_BYTES:,} characters.")
        if re.search(r"[\s\x00-\x1f\x7f]", text):
            raise LayerError("The address has spaces or control characters; write %20 for a space.")
        names = _PLACEHOLDER.findall(text)
        _check_placeholders(text, names)
        _check_url_parts(text)
        template = cls(text, _parse_subdomains([name for name in names if _placeholder_name(name) == "s"]))
        template._check_urls()
        return template

    def url(self, tile: Tile) -> str:
        """Returns a tile's address. The same tile always has the same subdomain, so that caches hold it once."""
        rows = 2**tile.z
        values = {
            "z": str(tile.z),
            "x": str(tile.x),
            "y": str(tile.y),
            "-y": str(rows - 1 - tile.y),
            "q": grid.quadkey(tile.z, tile.x, tile.y),
            "s": self.subdomains[(tile.x + tile.y) % len(self.subdomains)] if self.subdomains else "",
            "r": "@2x" if tile.scale == 2 else "",
            "format": tile.format,
        }
        return _PLACEHOLDER.sub(lambda match: values[_placeholder_name(match[1])], self.text)

    @property
    def has_scale(self) -> bool:
        """True if the server has tiles of twice the pixels as well."""
        return "{r}" in self.text

    @property
    def has_quadkey(self) -> bool:
        return "{q}" in self.text

    @property
    def host(self) -> str:
        """The server's name for people: without subdomains, and without the path, which may hold a key."""
        without = TileUrlTemplate(_SUBDOMAIN_LABEL.sub("//", self.text), self.subdomains)
        return url_syntax.parse_target(without.url(_LONGEST_TILE)).host

    @property
    def scopes(self) -> frozenset[str]:
        """The domains of its addresses, as the frontier names them: one for each subdomain."""
        return frozenset(url_scopes(url).host for url in self._longest_urls())

    def refusal(self, guard: AddressGuard) -> str | None:
        """Returns the reason why its tiles cannot be fetched, as far as known without DNS; None if there is none."""
        target = url_syntax.parse_target(self.url(_LONGEST_TILE))
        if not guard.may_use(target.port):
            return f"port {target.port} is not fetched from"
        return guard.refusal(target.host, target.port) if target.is_address else None

    def _check_urls(self) -> None:
        for url in self._longest_urls():
            try:
                url_syntax.parse_target(url)
            except FetchError as error:
                raise LayerError(f"The address cannot be fetched: {error.detail}.") from error

    def _longest_urls(self) -> list[str]:
        """Returns an address for each subdomain."""
        number = len(self.subdomains) or 1
        return [self.url(replace(_LONGEST_TILE, x=_LONGEST_TILE.x - place)) for place in range(number)]


@lru_cache(maxsize=256)
def parse_template(text: str) -> TileUrlTemplate:
    """Parses a template, with a cache: the layers are read twice a second."""
    return TileUrlTemplate.parse(text)


def _placeholder_name(name: str) -> str:
    """Returns `s` for `s:1234`, any other name as it is."""
    return "s" if name.startswith("s:") else name


def _check_placeholders(text: str, names: list[str]) -> None:
    known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    if unknown := [name for name in names if _placeholder_name(name) not in PLACEHOLDERS]:
        raise LayerError(f"The address has {{{unknown[0][:40]}}}, which means nothing here. There are {known}.")
    if re.search(r"[{}]", _PLACEHOLDER.sub("", text)):
        raise LayerError(f"The address has a brace without its other one. There are {known}.")
    if "q" not in names and not ("z" in names and "x" in names and ("y" in names or "-y" in names)):
        raise LayerError("The address does not say which tile: it needs {z}, {x} and {y} (or {-y}), or {q}.")


def _check_url_parts(text: str) -> None:
    match = _URL_PARTS.fullmatch(text)
    if match is None or match["scheme"].lower() not in url_syntax.DEFAULT_PORTS:
        raise LayerError("The address begins with http:// or https://.")
    if "@" in match["authority"]:
        raise LayerError("The address has a user or password before its host. Those are not sent.")
    if others := [name for name in _PLACEHOLDER.findall(match["authority"]) if _placeholder_name(name) != "s"]:
        raise LayerError(f"The address has {{{others[0]}}} in its host, where only {{s}} can be.")
    if "#" in match["rest"]:
        raise LayerError("The address has a fragment (#), which servers never see.")


def _parse_subdomains(named: list[str]) -> tuple[str, ...]:
    """Returns the values of `{s}`: a, b, c; of `{s:1234}` each character, of `{s:mt0,mt1}` each word."""
    if not named:
        return ()
    if len(set(named)) > 1:
        raise LayerError("The address has two different {s}.")
    listed = named[0].partition(":")[2] if ":" in named[0] else DEFAULT_SUBDOMAINS
    choices = tuple(listed.split(",") if "," in listed else listed)
    if not 0 < len(choices) <= MAX_SUBDOMAINS or not all(_HOST_LABEL.fullmatch(choice) for choice in choices):
        raise LayerError("After {s: there are letters, as {s:abcd}, or words with commas, as {s:mt0,mt1}.")
    return choices


FETCH_TILE_TASK = "resources.fetch_tile"


def upstream_tile_work(template: TileUrlTemplate, wanted: Tile, version: int) -> work.Work:
    """Returns the work of fetching a tile for the layer's present version. Its first argument is the address."""
    return work.Work(
        key=f"fetch:{wanted.content_key}:{version}",
        kind=f"fetch:{wanted.layer}",
        lane="fetch.fast",
        refresh_lane="fetch.refresh",
        task=FETCH_TILE_TASK,
        arguments=(template.url(wanted), wanted.layer, wanted.z, wanted.x, wanted.y, wanted.scale, wanted.format),
    )


MAX_EMPTY_FRESH_SECONDS = 86_400.0
"""The longest freshness of an empty tile: servers fill gaps, and mend mistakes."""


@dataclass(frozen=True, slots=True)
class TileValidators:
    """The validators sent with a tile, for a conditional request, and the address that sent them."""

    url: str
    etag: str | None
    last_modified: str | None

    @classmethod
    def of(cls, head: Head) -> Self:
        return cls(head.url, head.etag, head.last_modified)

    @classmethod
    def read(cls, note: str) -> Self | None:
        """Reads the note beside a tile; None if there is no valid one."""
        try:
            held = json.loads(note)
            return cls(str(held["url"]), _text_or_none(held["etag"]), _text_or_none(held["last_modified"]))
        except (ValueError, KeyError, TypeError):
            return None

    def note(self) -> str:
        """Returns the note for `read`; empty if there is neither validator."""
        if self.etag is None and self.last_modified is None:
            return ""
        return json.dumps({"url": self.url, "etag": self.etag, "last_modified": self.last_modified})

    def belong_to(self, url: str) -> bool:
        """Tells whether this address itself sent the validators.

        Validators are of one resource only. A redirect may lead to another one next time, and a template can be
        changed to another map of the same server.
        """
        try:
            return url_syntax.parse_target(url).url == self.url
        except FetchError:
            return False

    def renewed(self, head: Head) -> "TileValidators":
        """Returns the validators after a 304, which need not repeat them (RFC 9110, 15.4.5)."""
        return TileValidators(self.url, head.etag or self.etag, head.last_modified or self.last_modified)


def tile_version(layer_version: int, started_at: float, now: float) -> int:
    """Returns the version of a tile requested at `started_at` (Unix seconds).

    Versions are moments in microseconds. A tile requested before the layer's last change is older than the layer,
    and stale at once: the change may be about any tile. A layer version from the future (a clock was set back) is
    taken for the present one, else nothing would ever be fresh.
    """
    started = int(started_at * 1_000_000)
    return started if started < layer_version <= int(now * 1_000_000) else layer_version


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
