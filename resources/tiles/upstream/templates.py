"""Addresses of another server's tiles: a URL with placeholders, as map libraries have it. PURE.

Where placeholders come from: https://leafletjs.com/reference.html#tilelayer for `{s}`, `{r}` and `{-y}`,
https://learn.microsoft.com/en-us/bingmaps/articles/bing-maps-tile-system for `{q}`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from typing import Self

import mercantile

from resources.fetching.addressing import targets
from resources.fetching.addressing.addresses import Guard
from resources.fetching.errors import FetchError
from resources.tiles import grid
from resources.tiles.errors import LayerError
from resources.tiles.tile import Tile

KNOWN = ("z", "x", "y", "-y", "q", "s", "r", "format")
SUBDOMAINS = "abc"
MOST_SUBDOMAINS = 50

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PARTS = re.compile(r"(?P<scheme>[^:/?#{}]*)://(?P<authority>[^/?#]*)(?P<rest>.*)", re.DOTALL)
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)
_FIRST_LABEL = re.compile(r"//\{s(?::[^{}]*)?\}\.")
_LONGEST = Tile("", grid.MAX_ZOOM, 2**grid.MAX_ZOOM - 1, 2 ** (grid.MAX_ZOOM - 1), 2, "webp")


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was checked. `subdomains` is what `{s}` stands for, in turn."""

    text: str
    subdomains: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The template of that text. Raises LayerError naming what is wrong."""
        if len(text) > targets.MAX_URL_BYTES:
            raise LayerError(f"The address has more than {targets.MAX_URL_BYTES:,} characters.")
        if re.search(r"[\s\x00-\x1f\x7f]", text):
            raise LayerError("The address has spaces or control characters; write %20 for a space.")
        names = _PLACEHOLDER.findall(text)
        _check_names(text, names)
        _check_parts(text)
        template = cls(text, _subdomains([name for name in names if _plain(name) == "s"]))
        template._check_urls()
        return template

    def url(self, tile: Tile) -> str:
        """The address of one tile. The same tile always has the same subdomain, so that caches hold it once."""
        rows = 2**tile.z
        values = {
            "z": str(tile.z),
            "x": str(tile.x),
            "y": str(tile.y),
            "-y": str(rows - 1 - tile.y),
            "q": mercantile.quadkey(tile.x, tile.y, tile.z),
            "s": self.subdomains[(tile.x + tile.y) % len(self.subdomains)] if self.subdomains else "",
            "r": "@2x" if tile.scale == 2 else "",
            "format": tile.format,
        }
        return _PLACEHOLDER.sub(lambda match: values[_plain(match[1])], self.text)

    @property
    def has_scale(self) -> bool:
        """Whether the server has tiles of twice the pixels as well."""
        return "{r}" in self.text

    @property
    def has_quadkey(self) -> bool:
        return "{q}" in self.text

    @property
    def host(self) -> str:
        """Whose tiles these are, as people are told: no subdomains, and nothing of the path, which may hold a key."""
        without = Template(_FIRST_LABEL.sub("//", self.text), self.subdomains)
        return targets.parse(without.url(_LONGEST)).host

    def refusal(self, guard: Guard) -> str | None:
        """Why its tiles cannot be fetched, as far as that is known without asking DNS; None if nothing is."""
        target = targets.parse(self.url(_LONGEST))
        if not guard.may_use(target.port):
            return f"port {target.port} is not fetched from"
        return guard.refusal(target.host, target.port) if _is_address(target.host) else None

    def _check_urls(self) -> None:
        for place, _ in enumerate(self.subdomains or ("",)):
            longest = Tile("", _LONGEST.z, _LONGEST.x - place, _LONGEST.y, _LONGEST.scale, _LONGEST.format)
            try:
                targets.parse(self.url(longest))
            except FetchError as error:
                raise LayerError(f"The address cannot be fetched: {error.detail}.") from error


@lru_cache(maxsize=256)
def parse(text: str) -> Template:
    """The same as Template.parse, remembered: the layers are read twice a second."""
    return Template.parse(text)


def _plain(name: str) -> str:
    """`s` for `s:1234`, any other as it is."""
    return "s" if name.startswith("s:") else name


def _check_names(text: str, names: list[str]) -> None:
    known = ", ".join(f"{{{name}}}" for name in KNOWN)
    if unknown := [name for name in names if _plain(name) not in KNOWN]:
        raise LayerError(f"The address has {{{unknown[0][:40]}}}, which means nothing here. There are {known}.")
    if re.search(r"[{}]", _PLACEHOLDER.sub("", text)):
        raise LayerError(f"The address has a brace without its other one. There are {known}.")
    if "q" not in names and not ("z" in names and "x" in names and ("y" in names or "-y" in names)):
        raise LayerError("The address does not say which tile: it needs {z}, {x} and {y} (or {-y}), or {q}.")


def _check_parts(text: str) -> None:
    match = _PARTS.fullmatch(text)
    if match is None or match["scheme"].lower() not in targets.DEFAULT_PORTS:
        raise LayerError("The address begins with http:// or https://.")
    if "@" in match["authority"]:
        raise LayerError("The address has a user or password before its host. Those are not sent.")
    if others := [name for name in _PLACEHOLDER.findall(match["authority"]) if _plain(name) != "s"]:
        raise LayerError(f"The address has {{{others[0]}}} in its host, where only {{s}} can be.")
    if "#" in match["rest"]:
        raise LayerError("The address has a fragment (#), which servers never see.")


def _subdomains(named: list[str]) -> tuple[str, ...]:
    """What `{s}` stands for: a, b, c; of `{s:1234}` each character, of `{s:mt0,mt1}` each word."""
    if not named:
        return ()
    if len(set(named)) > 1:
        raise LayerError("The address has two different {s}.")
    listed = named[0].partition(":")[2] if ":" in named[0] else SUBDOMAINS
    choices = tuple(listed.split(",") if "," in listed else listed)
    if not 0 < len(choices) <= MOST_SUBDOMAINS or not all(_LABEL.fullmatch(choice) for choice in choices):
        raise LayerError("After {s: there are letters, as {s:abcd}, or words with commas, as {s:mt0,mt1}.")
    return choices


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
