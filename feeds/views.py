"""Serves the pages of feeds under /feeds/, defers them, or explains wrong parameters.

A process reads each feed's row twice a second at the most; while the database is away the last known row serves.
"""

import ipaddress
import re
import time
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect

from resources import database, problems
from resources.prewarm.pieces import Piece, WantedContent, take_slowest_lane
from resources.problems import Problem
from resources.tokens import auth
from retry import contents, deferral, headers, responses, stores
from retry.errors import StoreUnavailable

from . import credentials, feed_rows
from .errors import PageQueryError, UnknownFeedError
from .models import Category, Feed, Follow
from .pages import page_entries, render
from .pages.query import PageQuery
from .pages.render import GRACE_SCANS
from .pages.work import FetchThenRender, MissingPage, PageState, decide_page, fetch_page_work, render_work
from .push import websub

NO_SUCH_FEED = "There is no such feed."
MOVED_CACHE_CONTROL = "public, max-age=60, s-maxage=1"
"""A slug may be given to another feed."""

MAX_KNOWN_SUBJECTS = 10_000
"""Rows. All are dropped when there are more: that costs one more query each."""

COMBINATION_KIND = "feeds"

FOLLOWED_BY = "followed-by"
MAX_LISTED_FOLLOWS = 2_000
"""Feeds of a list that main writes while the client waits."""
_USER_NAME = re.compile(r"[\w.@+-]{1,150}")


@responses.read_only
@database.answer_outages
def serve_feed_page(request: HttpRequest, address: str) -> HttpResponse:
    """`/feeds/<slug>.<atom|rss|json>`, `/feeds/category/<slug>.…`, `/feeds/all.…` (or .opml), and pages for people."""
    try:
        asked = PageQuery.read(request.path, dict(request.GET.lists()))
    except PageQueryError as error:
        return responses.problem_response(400, str(error), cache_status="Tarry; fwd=bypass")
    if asked is None:
        return responses.not_found_response(NO_SUCH_FEED)
    if asked.is_list and FOLLOWED_BY in request.GET:
        return _serve_followed(request, asked)
    if not asked.knows(request.GET):
        return _redirect_without_strangers(asked)
    try:
        subject = find_known_subject(asked)
    except UnknownFeedError:
        return _redirect_from_old_slug(asked) or responses.not_found_response(NO_SUCH_FEED)
    answer = _serve_or_explain(request, asked, subject)
    if asked.format == "html" and answer.status_code == 200:  # a 304 leaves the client the policy that it has
        answer["Content-Security-Policy"] = content_security_policy(
            settings.RETRY_AFTER_SERVER, has_videos=PLAYER_MARK in answer.content
        )
    if answer.status_code in {200, 304} and (hubs := render.page_hubs(asked)):
        answer["Link"] = websub.write_links(hubs, f"{page_entries.site_url()}{asked.address}")
    return answer


def _serve_followed(request: HttpRequest, asked: PageQuery) -> HttpResponse:
    """The feeds of a combination that a user follows, for the user's tokens and those that may manage feeds."""
    try:
        user_id = _find_follower(request)
        category = page_entries.find_subject(asked)
    except Problem as refusal:
        return refusal.response()
    except UnknownFeedError:
        return responses.not_found_response(NO_SUCH_FEED)
    assert isinstance(category, Category)
    body = render.render_list(category, followed_by=user_id)
    given = {
        "Cache-Control": "private, no-cache",
        "Cache-Status": "Tarry; fwd=bypass",
        "Content-Type": render.OPML_MEDIA_TYPE,
        "ETag": f'"{sha256(body).hexdigest()[:32]}"',
        "Vary": "Authorization",
    }
    return responses.conditional_response(request, HttpResponse(body, headers=given), None)


def _find_follower(request: HttpRequest) -> int:
    """Returns the id of the user that the address names. Raises Problem unless the token may see whom it follows."""
    token, names = auth.Token()(request), request.GET.getlist(FOLLOWED_BY)
    if token is None:
        raise Problem(401, problems.NO_TOKEN, WWW_Authenticate=problems.CHALLENGE)
    if len(names) != 1 or not _USER_NAME.fullmatch(names[0]):
        raise Problem(400, f"{FOLLOWED_BY} is the name of one user.")
    found = get_user_model().objects.filter(**{get_user_model().USERNAME_FIELD: names[0]}).first()
    if not token.may_manage_feeds and (found is None or found.pk != token.user_id):
        raise Problem(403, f"The token “{token}” is not of this user, and may not manage feeds.")
    if found is None:
        raise Problem(404, "There is no such user.")
    if Follow.objects.filter(user=found.pk).count() > MAX_LISTED_FOLLOWS:
        raise Problem(422, f"This user follows more than {MAX_LISTED_FOLLOWS:,} feeds, which is too many for a list.")
    return found.pk


def _redirect_without_strangers(asked: PageQuery) -> HttpResponse:
    """Redirects to the address without the arguments that other sites add: readers and caches keep addresses."""
    return HttpResponsePermanentRedirect(asked.address, headers=headers.uncached_headers("Tarry; fwd=bypass"))


def _redirect_from_old_slug(asked: PageQuery) -> HttpResponse | None:
    """Redirects to the feed that had this slug before, or that took over the one that had; None if there is none."""
    slug = None if asked.is_combined else feed_rows.current_slug(asked.slug)
    if slug is None:
        return None
    answer = HttpResponsePermanentRedirect(replace(asked, slug=slug).address)
    answer["Cache-Control"] = MOVED_CACHE_CONTROL
    return answer


def _serve_or_explain(request: HttpRequest, asked: PageQuery, subject: Feed | Category) -> HttpResponse:
    key = page_entries.page_content_key(asked, subject)
    version, work, host = subject.version, render_work(asked, key, subject.version), ""
    if isinstance(subject, Feed):
        match decide_for_feed(subject):
            case MissingPage() as lack:
                return responses.problem_response(lack.status, lack.detail, wait_seconds=lack.wait_seconds)
            case FetchThenRender(newer, has_entries) if not has_entries or is_page_cached(key):
                version, host = newer, _shown_host(subject)
                work = fetch_page_work(key, newer, subject.pk, subject.url, asked.address)
    return deferral.serve_or_defer(request, key, work, version=version, html=asked.format == "html", host=host)


def _shown_host(feed: Feed) -> str:
    """The host that a waiting page names; empty if that could tell of a private server.

    Fetchers refuse private addresses under any name, unless some are allowed.
    """
    if credentials.is_private(feed) or {*settings.FETCH_ALLOW_PRIVATE} - {settings.SAMPLES}:
        return ""
    host = urlsplit(feed.url).hostname or ""
    return "" if _is_address(host) else host


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def decide_for_feed(feed: Feed) -> FetchThenRender | MissingPage | None:
    known = PageState(**{each.name: getattr(feed, each.name) for each in fields(PageState)})
    grace = timedelta(seconds=GRACE_SCANS * settings.FEEDS_SCAN_SECONDS)
    return decide_page(known, datetime.now(UTC), grace=grace, stale=timedelta(seconds=settings.FEEDS_STALE_SECONDS))


def is_page_cached(content_key: str) -> bool:
    """True if there is a page to serve while a newer one is prepared. False while `cache` is away."""
    try:
        return stores.run_steps(contents.read_content(content_key, with_body=False)) is not None
    except StoreUnavailable:
        return False


@responses.read_only
def redirect_with_slash(request: HttpRequest, address: str = "") -> HttpResponse:
    """Redirects `/feeds` and `/feeds/<slug>` to the pages for people, whether they exist or not."""
    return HttpResponsePermanentRedirect(f"{request.path}/")


PLAYER_MARK = b'<iframe class="player"'
"""Only the template of a page has it: no frame of a publisher is left in sanitised HTML."""


def content_security_policy(retry_after_server: str, *, has_videos: bool = False) -> str:
    """The policy of pages for people: pictures of this site alone, and the waiting instance if it is on another host.

    Sound and films come from their publishers, and videos from YouTube, when they are played.
    """
    frames = f"frame-src {render.VIDEO_SITE}; " if has_videos else ""
    parts = urlsplit(retry_after_server)
    pictures = f"'self' {parts.scheme}://{parts.netloc}" if parts.netloc else "'self'"
    return (
        f"default-src 'none'; style-src 'self'; img-src {pictures}; media-src http: https:; {frames}"
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


_known_subjects: dict[tuple[bool, str], tuple[Feed | Category, float]] = {}
"""The subjects of pages, with the time at which they were read (monotonic)."""


def find_known_subject(asked: PageQuery) -> Feed | Category:
    """Returns the page's subject of a moment ago. Raises UnknownFeedError, and DatabaseError if it is not known."""
    key = (asked.is_combined, asked.slug)
    held, read_at = _known_subjects.get(key, (None, 0.0))
    if held is not None and time.monotonic() - read_at < settings.FEEDS_KNOWN_SECONDS:
        return held
    try:
        found = page_entries.find_subject(asked, is_bare=True)
    except DatabaseError:
        if held is None:
            raise
        return held
    except UnknownFeedError:
        _known_subjects.pop(key, None)
        raise
    if len(_known_subjects) >= MAX_KNOWN_SUBJECTS:
        _known_subjects.clear()
    _known_subjects[key] = (found, time.monotonic())
    return found


def warm_piece(counted_key: str, requests: float) -> Piece | None:
    """Returns the piece for a traffic key; None if the feed is gone, or must be fetched first."""
    asked = _counted_query(counted_key)
    if asked is None:
        return None
    try:
        subject = find_known_subject(asked)
    except UnknownFeedError:
        return None
    if isinstance(subject, Feed) and decide_for_feed(subject) is not None:
        return None
    key = page_entries.page_content_key(asked, subject)
    work = take_slowest_lane(render_work(asked, key, subject.version))
    return Piece(work, (WantedContent(key, asked.address, subject.version),), "feeds", requests=requests)


def _counted_query(counted_key: str) -> PageQuery | None:
    """Returns the query for the first page without parameters: others are left to their readers."""
    match counted_key.split(":"):
        case [kind, slug, ("atom" | "rss" | "json" | "html" | "opml") as page_format, ""]:
            return PageQuery(kind == COMBINATION_KIND, slug, page_format)
        case _:
            return None
