"""Extracts the article of a web page, with readability-lxml: its text and pictures, without what stands around it.

Only child processes import it: a page may take any amount of time and memory.
"""

import re

from readability import Document
from readability.readability import Unparseable

from ..errors import ParseError
from . import charset, markup
from .documents import DEFAULT_LIMITS, FeedLimits

_FIRST_HEADING = re.compile(
    r"(?:\s|</?(?:div|article|section|main|header|span)>)*(?P<whole><h[12]>(?P<text>.*?)</h[12]>)", re.DOTALL
)
_HTML_TYPES = ("", "text/html", "application/xhtml+xml")


def extract_article(page: bytes, content_type: str, url: str, limits: FeedLimits = DEFAULT_LIMITS) -> str:
    """Returns the article as sanitised HTML, with absolute addresses; `url` is the page's, after redirects.

    Raises ParseError with a sentence if there is none.
    """
    if content_type.partition(";")[0].strip().lower() not in _HTML_TYPES:
        raise ParseError("It is not a web page.")
    text = charset.decode_document(page, content_type).replace("\0", "").lstrip("\ufeff \t\r\n")
    if not text:
        raise ParseError("The page is empty.")
    try:
        found = Document(charset.strip_illegal(_without_declaration(text))).summary(html_partial=True)
    except (Unparseable, ValueError, LookupError, RecursionError) as error:
        raise ParseError("No article was found on the page.") from error
    article = markup.sanitise_html(found[: limits.content_characters], url)
    if not markup.html_to_text(article):
        raise ParseError("No article was found on the page.")
    return article


def _without_declaration(text: str) -> str:
    """Removes an XML declaration: lxml takes no text that names an encoding."""
    return text.partition("?>")[2] if text.startswith("<?xml") else text


def drop_title(html: str, title: str) -> str:
    """Returns an article without its first heading if that is the entry's title, which is shown above it."""
    heading = _FIRST_HEADING.match(html)
    if heading is None or markup.html_to_text(heading["text"]).casefold() != title.casefold():
        return html
    return html[: heading.start("whole")] + html[heading.end("whole") :]
