"""Pages of feeds over HTTP: serves, defers, or says what is wrong with the parameters."""

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect

from feeds.composing import origins, pages, subjects
from feeds.composing.asking import Asked
from feeds.composing.errors import AskError, UnknownError
from feeds.keeping import aliases
from feeds.models import Category, Feed
from resources import outages
from retry import methods, responses, serving

from . import known, standing
from .deciding import Fetch, Wait
from .work import render_work

NOT_FOUND = "There is no such feed."
MOVED = "public, max-age=60, s-maxage=1"
"""Slugs may be given anew."""


@methods.read_only
@outages.told
def feed(request: HttpRequest, address: str) -> HttpResponse:
    """`/feeds/<slug>.<atom|rss|json>`, `/feeds/category/<slug>.…`, `/feeds/all.…`, and the pages for people."""
    try:
        asked = Asked.read(request.path, dict(request.GET.lists()))
    except AskError as error:
        return responses.problem(400, str(error), cache_status="Tarry; fwd=bypass")
    if asked is None:
        return responses.not_found(NOT_FOUND)
    try:
        subject = known.subject(asked)
    except UnknownError:
        return _moved(asked) or responses.not_found(NOT_FOUND)
    answer = _answer(request, asked, subject)
    if asked.format == "html" and answer.status_code in {200, 304}:
        answer["Content-Security-Policy"] = content_security_policy(settings.RETRY_AFTER_SERVER)
    if answer.status_code in {200, 304} and (hubs := pages.hubs(asked)):
        answer["Link"] = links(hubs, f"{origins.site()}{asked.address}")
    return answer


def _moved(asked: Asked) -> HttpResponse | None:
    """Leads to the feed that had this slug before, or has taken over the one that had; None where there is none."""
    slug = None if asked.is_combined else aliases.current(asked.slug)
    if slug is None:
        return None
    answer = HttpResponsePermanentRedirect(replace(asked, slug=slug).address)
    answer["Cache-Control"] = MOVED
    return answer


def links(hubs: Sequence[str], itself: str) -> str:
    """The Link field by which subscribers find the hub and the topic (WebSub, 4)."""
    return ", ".join([*(f'<{hub}>; rel="hub"' for hub in hubs), f'<{itself}>; rel="self"'])


def _answer(request: HttpRequest, asked: Asked, subject: Feed | Category) -> HttpResponse:
    key = subjects.content_key(asked, subject)
    version, work = subject.version, render_work(asked, key, subject.version)
    if isinstance(subject, Feed):
        match standing.decide_now(subject):
            case Wait(lack):
                return responses.problem(lack.status, lack.detail, wait_seconds=lack.wait_seconds)
            case Fetch(newer, has_entries) if not has_entries or standing.is_cached(key):
                version, work = newer, standing.fetch_work(asked, key, subject, newer)
            case _:
                pass
    return serving.serve_or_defer(request, key, work, version=version, html=asked.format == "html")


@methods.read_only
def with_slash(request: HttpRequest, address: str = "") -> HttpResponse:
    """`/feeds`, `/feeds/<slug>` lead to the pages for people, whether there are any or not."""
    return HttpResponsePermanentRedirect(f"{request.path}/")


def content_security_policy(retry_after_server: str) -> str:
    """That of pages for people: pictures by this site alone, and the waiting instance where it is on another host.

    Sound and films come from their publishers, when somebody plays them.
    """
    parts = urlsplit(retry_after_server)
    pictures = f"'self' {parts.scheme}://{parts.netloc}" if parts.netloc else "'self'"
    return (
        f"default-src 'none'; style-src 'self'; img-src {pictures}; media-src http: https:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
