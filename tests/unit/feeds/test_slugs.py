"""Slugs of titles and addresses, and alternatives for a taken one."""

import re

import pytest

from feeds import feed_rows
from feeds.models import MAX_SLUG_CHARACTERS


@pytest.mark.parametrize(
    ("title", "url", "slug"),
    [
        ("Planet Python", "https://x.example/", "planet-python"),
        ("  Ça va? — Déjà vu!  ", "https://x.example/", "ca-va-deja-vu"),
        ("", "https://www.blog.example/feed/", "blog-example"),
        ("技術", "https://www.blog.example/feeds/python.rss.xml", "blog-example"),
        ("", "https://one.example:8080/a/b/index.php?id=7", "one-example"),
        ("word " * 40, "https://x.example/", "-".join(["word"] * 12)),
        ("w" * 200, "https://x.example/", "w" * 60),
    ],
)
def test_a_feed_is_named_by_its_title_else_by_its_host(title: str, url: str, slug: str) -> None:
    assert feed_rows.make_feed_slug(title, url) == slug


@pytest.mark.parametrize("slug", ["", "news", "w" * 60])
def test_all_candidates_are_different_slugs_that_can_be_kept(slug: str) -> None:
    found = feed_rows.candidate_slugs(slug, "category", "0123456789abcdef" * 2)
    assert len(set(found)) == len(found)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", each) for each in found)
    assert max(map(len, found)) <= MAX_SLUG_CHARACTERS
