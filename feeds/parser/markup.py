"""HTML of strangers: what is let through of it, and what it says as text. PURE."""

import html
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import nh3
from lxml import etree

from . import addresses

TAGS = frozenset(
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
_REL = "noopener noreferrer nofollow"
_SCHEMES = frozenset((*addresses.ALLOWED, "mailto"))
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
        return _made(("rewrite_with_base", base))
    except ValueError:  # a base that is no URL by the stricter rules of browsers
        return _made("deny")


def _made(relative: Literal["deny"] | tuple[Literal["rewrite_with_base"], str]) -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=set(TAGS),
        clean_content_tags=set(_DROPPED_WHOLE),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        url_relative=relative,
        link_rel=_REL,
    )


def sanitised(markup: str, base: str) -> str:
    """HTML without anything that acts, loads from elsewhere than the web, or looks like the site around it.

    Addresses become absolute by `base`, itself absolute; where that is nonsense, relative ones go. Sanitising what
    was sanitised changes nothing.
    """
    return windows_characters(_cleaner(base).clean(_flattened(markup))).strip()


def _flattened(markup: str) -> str:
    """The same, parsed by libxml2 first when it has many tags.

    HTML's rules for tags that do not match take quadratic time and memory; libxml2 does without, and stops at a
    depth of 255.
    """
    if markup.count("<") < _MANY_TAGS:
        return markup
    parser = etree.HTMLParser(recover=True, no_network=True, remove_comments=True, remove_pis=True, encoding="utf-8")
    root = etree.fromstring(f"<div>{markup}</div>".encode(), parser=parser)
    return "" if root is None else etree.tostring(root, method="html", encoding="unicode")


def with_pictures(markup: str, address: Callable[[str], str]) -> str:
    """HTML that was sanitised, with pictures at other addresses: what `address` gives for theirs, none if empty.

    Files are loaded late: pictures when they come into sight, sound and films when somebody plays them.
    """
    if "<" not in markup:
        return markup

    def replaced(tag: str, name: str, value: str) -> str | None:
        return (address(value) or None) if (tag, name) in _PICTURES else value

    cleaner = nh3.Cleaner(
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        attribute_filter=replaced,
        set_tag_attribute_values={"img": {"loading": "lazy"}, "audio": _WHEN_PLAYED, "video": _WHEN_PLAYED},
        url_relative="pass_through",
        link_rel=_REL,
    )
    return cleaner.clean(markup)


def is_markup(text: str) -> bool:
    """Whether a text that may be HTML is, by what it has in it: a tag that feeds use, or an entity."""
    return ("&" in text and _ENTITY.search(text) is not None) or ("<" in text and _TAG.search(text) is not None)


def text_of(markup: str) -> str:
    """What HTML says, without its tags, in one line."""
    if "<" in markup:
        markup = _ONLY_TEXT.clean(_flattened(re.sub(r"<(?=br|p|/p|div|/div|li|/td)", " <", markup)))
    return one_line(html.unescape(markup))


def escaped(text: str) -> str:
    """A text as HTML, with its lines."""
    return "<br>".join(html.escape(text.strip(), quote=False).split("\n")) if text.strip() else ""


def one_line(text: str) -> str:
    return " ".join(windows_characters(text).split())


def windows_characters(text: str) -> str:
    """Without control characters that stand for those of Windows-1252, as browsers read them."""
    if text.isascii():
        return text
    return _C1.sub(lambda found: found[0].encode("latin-1").decode("cp1252", "ignore"), text)
