"""Sanitises HTML from strangers, extracts its text, and makes addresses in feeds absolute."""

import html
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal
from urllib.parse import urljoin, urlsplit

import nh3
from lxml import etree

ALLOWED_SCHEMES = ("http", "https")
_BLANK = re.compile(r"[\x00-\x20\x7f-\xa0]+")

_NO_HOST = re.compile(r"[\s<>\"'{}|\\^`%&;=,*!?#$()+~]")


def absolute_url(base: str, address: str, max_characters: int) -> str:
    """Returns the address relative to a base; empty if it is none, is too long, or has another scheme than http(s)."""
    address = address.strip()
    if not address or len(address) > max_characters:
        return ""
    try:
        found = urljoin(base, _BLANK.sub("%20", address))
        parts = urlsplit(found)
        host, _ = parts.hostname or "", parts.port
    except ValueError:  # brackets that are no IPv6 address, a port that is no number
        return ""
    is_whole = parts.scheme in ALLOWED_SCHEMES and host and not _NO_HOST.search(host)
    return found if is_whole and len(found) <= max_characters else ""


def join_base(base: str, inner: str) -> str:
    """Resolves a base within another (xml:base). A broken one changes nothing."""
    try:
        return urljoin(base, inner.strip())
    except ValueError:
        return base


ALLOWED_TAGS = frozenset(
    re.findall(
        r"\S+",
        """
        a abbr acronym address article aside audio b bdi bdo big blockquote br caption center cite code col colgroup
        dd del details dfn div dl dt em figcaption figure footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd li main
        mark nav ol p picture pre q rp rt ruby s samp section small source span strike strong sub summary sup table
        tbody td tfoot th thead time tr track tt u ul var video wbr
        """,
    )
)
_ATTRIBUTES = {
    "*": frozenset(("dir", "lang", "title")),
    "a": frozenset(("href", "hreflang")),
    "abbr": frozenset(("title",)),
    "audio": frozenset(("controls", "src")),
    "col": frozenset(("span",)),
    "colgroup": frozenset(("span",)),
    "del": frozenset(("datetime",)),
    "details": frozenset(("open",)),
    "img": frozenset(("alt", "height", "src", "width")),
    "ins": frozenset(("datetime",)),
    "li": frozenset(("value",)),
    "ol": frozenset(("reversed", "start", "type")),
    "source": frozenset(("src", "type")),
    "td": frozenset(("align", "colspan", "rowspan")),
    "th": frozenset(("align", "colspan", "rowspan", "scope")),
    "time": frozenset(("datetime",)),
    "track": frozenset(("kind", "label", "src", "srclang")),
    "video": frozenset(("controls", "height", "poster", "src", "width")),
}
_PICTURES = frozenset((("img", "src"), ("video", "poster")))
_WHEN_PLAYED = {"controls": "", "preload": "none"}
_LINK_REL = "noopener noreferrer nofollow"
_LINK_SCHEMES = frozenset((*ALLOWED_SCHEMES, "mailto"))
_DROPPED_WHOLE = frozenset(("iframe", "math", "noembed", "noframes", "script", "style", "svg", "template", "title"))
_MANY_TAGS = 200
_TAG = re.compile(
    r"</?(?:a|abbr|acronym|b|big|br|center|cite|code|del|div|em|font|h[1-6]|hr|i|img|ins|kbd|li|mark|ol|p|pre|q|s|small"
    r"|span|strike|strong|sub|sup|table|td|tr|tt|u|ul|var)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_C1 = re.compile("[\x80-\x9f]")
_ONLY_TEXT = nh3.Cleaner(tags=set(), clean_content_tags=set(_DROPPED_WHOLE))


@lru_cache(maxsize=128)
def _cleaner(base: str) -> nh3.Cleaner:
    try:
        return _make_cleaner(("rewrite_with_base", base))
    except ValueError:  # a base that is no URL by the stricter rules of browsers
        return _make_cleaner("deny")


def _make_cleaner(relative: Literal["deny"] | tuple[Literal["rewrite_with_base"], str]) -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=set(ALLOWED_TAGS),
        clean_content_tags=set(_DROPPED_WHOLE),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_LINK_SCHEMES),
        url_relative=relative,
        link_rel=_LINK_REL,
    )


def sanitise_html(markup: str, base: str) -> str:
    """Removes all that acts, loads from elsewhere than the web, or looks like the site around it.

    Addresses become absolute by `base`, itself absolute; if that is broken, relative ones are removed. Sanitised HTML
    does not change if it is sanitised again.
    """
    return decode_windows_characters(_cleaner(base).clean(_flatten_markup(markup))).strip()


def _flatten_markup(markup: str) -> str:
    """Returns the markup; if it has many tags, libxml2 parses it first.

    HTML's rules for tags that do not match take quadratic time and memory; libxml2 does without, and stops at a depth
    of 255.
    """
    if markup.count("<") < _MANY_TAGS:
        return markup
    parser = etree.HTMLParser(recover=True, no_network=True, remove_comments=True, remove_pis=True, encoding="utf-8")
    root = etree.fromstring(f"<div>{markup}</div>".encode(), parser=parser)
    return "" if root is None else etree.tostring(root, method="html", encoding="unicode")


def rewrite_pictures(markup: str, address: Callable[[str], str]) -> str:
    """Rewrites the pictures of sanitised HTML to the addresses that `address` returns; without one they are removed.

    Files are loaded late: pictures when they come into sight, sound and films when they are played.
    """
    if "<" not in markup:
        return markup

    def replaced(tag: str, name: str, value: str) -> str | None:
        return (address(value) or None) if (tag, name) in _PICTURES else value

    cleaner = nh3.Cleaner(
        tags=set(ALLOWED_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        attribute_filter=replaced,
        set_tag_attribute_values={"img": {"loading": "lazy"}, "audio": _WHEN_PLAYED, "video": _WHEN_PLAYED},
        url_relative="pass_through",
        link_rel=_LINK_REL,
    )
    return cleaner.clean(markup)


def is_markup(text: str) -> bool:
    """Tells whether a text is HTML, by its content: a tag that feeds use, or an entity."""
    return ("&" in text and _ENTITY.search(text) is not None) or ("<" in text and _TAG.search(text) is not None)


def html_to_text(markup: str) -> str:
    """Returns the text of HTML, without tags, in one line."""
    if "<" in markup:
        markup = _ONLY_TEXT.clean(_flatten_markup(re.sub(r"<(?=br|p|/p|div|/div|li|/td)", " <", markup)))
    return to_one_line(html.unescape(markup))


def escape_text(text: str) -> str:
    """Returns a text as HTML, with its lines."""
    return "<br>".join(html.escape(text.strip(), quote=False).split("\n")) if text.strip() else ""


def to_one_line(text: str) -> str:
    return " ".join(decode_windows_characters(text).split())


def decode_windows_characters(text: str) -> str:
    """Replaces control characters that stand for those of Windows-1252, as browsers do."""
    if text.isascii():
        return text
    return _C1.sub(lambda found: found[0].encode("latin-1").decode("cp1252", "ignore"), text)
