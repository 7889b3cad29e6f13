"""The article of a web page: its text without what stands around it, sanitised."""

import pytest

from feeds.errors import ParseError
from feeds.parser import article
from feeds.parser.documents import FeedLimits

URL = "https://site.example.org/2026/tide"
TEXT = "The tide at the harbour rises twice a day, and the boats rise with it, as they have always done. " * 3
PAGE = f"""<!doctype html><html><head><title>Tide</title></head><body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/about">About us</a></li></ul></nav>
<main><article><h1>Tide</h1><p>{TEXT}</p><figure><img src="tide.png" onerror="x()" alt="Low"><figcaption>At noon
</figcaption></figure><pre>a = 1
b = 2</pre><p>{TEXT} <a href="/moon" onclick="x()">The moon</a></p><script>track()</script>
<iframe src="https://videos.example.org/"></iframe></article></main>
<div class="comments"><p>Great article, thank you very much!</p></div><footer>Cookie policy</footer></body></html>"""


def test_the_article_is_found_and_sanitised() -> None:
    found = article.extract_article(PAGE.encode(), "text/html; charset=utf-8", URL)
    assert found.count(TEXT.strip()) == 2
    assert '<img src="https://site.example.org/2026/tide.png" alt="Low">' in found
    assert "<figcaption>" in found
    assert "a = 1\nb = 2" in found
    assert 'href="https://site.example.org/moon"' in found
    for other in ("About us", "Cookie", "Great article", "script", "track", "iframe", "onclick", "onerror"):
        assert other not in found


@pytest.mark.parametrize("charset", ["windows-1251", "utf-16", "utf-8"])
def test_pages_are_read_by_their_charset(charset: str) -> None:
    page = PAGE.replace("boats", "лодки").encode(charset)
    assert "лодки" in article.extract_article(page, f"text/html; charset={charset}", URL)


def test_a_page_with_a_declaration_and_characters_that_xml_has_not_is_read() -> None:
    page = f'<?xml version="1.0" encoding="utf-8"?>\n{PAGE}'.replace("boats", "bo\x00a\x0bts").encode()
    assert "boats" in article.extract_article(page, "application/xhtml+xml", URL)


@pytest.mark.parametrize(
    ("body", "content_type", "why"),
    [
        (b"%PDF-1.7", "application/pdf", "not a web page"),
        (b"  ", "text/html", "empty"),
        (b"<html><body></body></html>", "text/html", "No article"),
        (b"\x00\x01\x02", "text/html", "No article"),
        (b"<!-- nothing -->", "text/html", "No article"),
    ],
)
def test_a_page_without_an_article_is_refused_with_the_reason(body: bytes, content_type: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        article.extract_article(body, content_type, URL)


@pytest.mark.parametrize(
    ("html", "rest"),
    [
        ("<div><article><h1>The <em>Tide</em></h1><p>It rises.</p></article></div>", "<p>It rises.</p>"),
        ("<div><h2>The tide</h2><p>It rises.</p></div>", "<p>It rises.</p>"),
        ("<div><h1>Another</h1><p>It rises.</p></div>", "<h1>Another</h1>"),
        ("<p>It rises.</p><h1>The tide</h1>", "<h1>The tide</h1>"),
    ],
)
def test_a_heading_that_repeats_the_title_is_dropped(html: str, rest: str) -> None:
    dropped = article.drop_title(html, "The tide")
    assert rest in dropped
    assert ("The" in dropped) == (rest.startswith("<h1>The tide"))


def test_a_long_article_is_cut() -> None:
    limits = FeedLimits(content_characters=500)
    assert len(article.extract_article(PAGE.encode(), "text/html", URL, limits)) < 1000
