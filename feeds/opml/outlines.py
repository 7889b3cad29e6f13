"""What a list of feeds holds, whatever way it was written. PURE: values only."""

from dataclasses import dataclass, field
from typing import TypeAlias

from ..addresses import Address

Path: TypeAlias = tuple[str, ...]
"""A category with those around it, the outermost first."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A feed in a list. `categories` are all places where it stands, none for one that stands in none.

    Texts are without line breaks, and empty where nothing is said. `site` is the address of its pages, unchecked.
    """

    address: Address
    title: str = ""
    site: str = ""
    description: str = ""
    language: str = ""
    categories: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An outline that is no feed which could be fetched: in which line it stands, how it is called, and why."""

    line: int
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class FeedList:
    """A list that was read. `duplicates` is how many outlines repeated a feed; their categories are with the first.

    `left_out` has the first of them, `left_out_in_all` says how many there were.
    """

    title: str = ""
    subscriptions: tuple[Subscription, ...] = ()
    duplicates: int = 0
    left_out: tuple[LeftOut, ...] = field(default=())
    left_out_in_all: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a list may hold. Texts that are longer are cut, everything else is refused."""

    max_bytes: int = 20_000_000
    max_depth: int = 50
    max_outlines: int = 100_000
    text_characters: int = 500
    left_out: int = 1_000
