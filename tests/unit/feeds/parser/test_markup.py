"""Markup of entries: sanitising, absolute links and plain text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feeds.parser import markup
from feeds.parser.markup import html_to_text, sanitise_html

BASE = "https://site.example.org/posts/1"
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href='JaVa\tScript:alert(1)'>x</a>",
    "<a href='&#106;avascript:alert(1)'>x</a>",
    "<a href='data:text/html,<script>alert(1)</script>'>x</a>",
    "<a href='vbscript:x'>x</a>",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "<math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>",
    "<iframe src='https://evil.example.org/'></iframe>",
    "<object data='x'></object><embed src='x'><applet code='x'></applet>",
    "<form action='/'><input name=password><button formaction='javascript:alert(1)'>x</button></form>",
    "<p style='position:fixed;top:0'>over everything</p>",
    "<p class='site-header' id='login'>x</p>",
    "<base href='https://evil.example.org/'><meta http-equiv=refresh content='0;url=https://evil.example.org/'>",
    "<link rel=stylesheet href='https://evil.example.org/'><style>@import 'x'</style>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
    "<template><script>alert(1)</script></template>",
    "<video src='javascript:alert(1)' poster='javascript:alert(1)' onplay='alert(1)'></video>",
    "<blockquote cite='javascript:alert(1)'>x</blockquote>",
    "<img src='//evil.example.org/x' srcset='javascript:alert(1) 2x' lowsrc='javascript:alert(1)'>",
    "<!--[if IE]><script>alert(1)</script><![endif]-->",
    "<xss onpointerenter=alert(1) style=x>x</xss>",
    "<a href='https://x.example.org/' target='_blank' ping='https://evil.example.org/' download>x</a>",
]
FORBIDDEN = (
    *("<script", "<style", "<iframe", "<svg", "<math", "<form", "<input", "<button", "<object", "<embed", "<link"),
    *("<base", "<meta", "<template", " on", "style=", "class=", "id=", "srcset=", "target=", "ping="),
    *("javascript:", "vbscript:", "data:"),
)


@pytest.mark.parametrize("markup", HOSTILE)
def test_nothing_that_acts_is_let_through(markup: str) -> None:
    tags = sanitise_html(markup, BASE).lower()
    assert not [found for found in FORBIDDEN if found in tags]


@pytest.mark.parametrize(
    "markup",
    [
        "<h2>Title</h2><p>A <b>b</b> <em>c</em> <code>d</code></p>",
        "<ul><li>One</li></ul><ol><li>Two</li></ol>",
        '<table><thead><tr><th colspan="2">x</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>',
        '<figure><img src="https://x.example.org/a.png" alt="A" width="3"><figcaption>A</figcaption></figure>',
        "<pre>a\n  b</pre><blockquote>x</blockquote>",
        '<audio src="https://x.example.org/a.mp3" controls=""></audio>',
    ],
)
def test_what_texts_are_made_of_is_kept(markup: str) -> None:
    assert sanitise_html(markup, BASE) == markup


def test_links_become_absolute_and_tell_nobody_where_they_stand() -> None:
    assert sanitise_html('<a href="../about?a=1&amp;b=2">x</a>', BASE) == (
        '<a href="https://site.example.org/about?a=1&amp;b=2" rel="noopener noreferrer nofollow">x</a>'
    )


@settings(max_examples=50)
@given(st.text(alphabet="<>/ab&;\"'= \npimgsrcdivx", max_size=200))
def test_sanitising_what_was_sanitised_changes_nothing(markup: str) -> None:
    once = sanitise_html(markup, BASE)
    assert sanitise_html(once, BASE) == once


def test_markup_becomes_a_line_of_text() -> None:
    text = "<p>One</p><p>two&nbsp;&amp; <b>thr</b>ee<br>four<script>x</script></p>"
    assert html_to_text(text) == "One two & three four"


@pytest.mark.parametrize(
    ("text", "expected"), [("a < b", False), ("AT&T", False), ("a &amp; b", True), ("<b>x</b>", True)]
)
def test_text_is_told_from_markup(text: str, expected: bool) -> None:
    assert markup.is_markup(text) is expected
