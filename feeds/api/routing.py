"""The router of feeds, and what its calls share. One for several modules: ninja answers other methods by router."""

from typing import Annotated, cast

from django.http import HttpRequest
from ninja import Path, Router

from feeds.keeping import aliases
from feeds.models import MOST_SLUG_CHARACTERS, SAID, Feed
from resources.api import tokens
from resources.api.models import ApiToken
from resources.api.problems import Problem

router = Router(tags=["feeds"])

PUBLIC: dict[str, list[dict[str, list[str]]]] = {"security": [{}, {"Token": []}]}
"""For the description: with a token or without."""

Slug = Annotated[
    str,
    Path(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$", max_length=MOST_SLUG_CHARACTERS, description="The feed's slug."),
]


def anybody(request: HttpRequest) -> ApiToken | bool | None:
    """Who asks: a token's row, or anybody who sends none. None, which becomes 401: a token that is not in force."""
    return tokens.Token()(request) if "Authorization" in request.headers else True


def find_feed(slug: str) -> Feed:
    """The feed that has this slug now: what is changed or removed is no other. Raises Problem.

    Without what it says, which may be much: that is read when it is asked for.
    """
    feed = Feed.objects.filter(slug=slug).defer(*SAID).first()
    if feed is None:
        now_called = aliases.current(slug, also_hidden=True)
        hint = f"It is “{now_called}” now." if now_called else "/api/feeds lists those that there are."
        raise Problem(404, f"There is no feed “{slug}”. {hint}")
    return feed


def find_readable(request: HttpRequest, slug: str) -> Feed:
    """The feed that has this slug, or had it, or has taken over the one that had. Raises Problem.

    Those that are hidden are there for tokens that may manage feeds alone.
    """
    may_see_all = may_manage(request)
    slugs = [slug] if (there := aliases.current(slug, also_hidden=may_see_all)) is None else [slug, there]
    feeds = Feed.objects.filter(slug__in=slugs).defer(*SAID)
    found = {feed.slug: feed for feed in (feeds if may_see_all else feeds.filter(is_hidden=False))}
    feed = found.get(slug) or found.get(slugs[-1])
    if feed is None:
        raise Problem(404, f"There is no feed “{slug}”. /api/feeds lists those that there are.")
    return feed


def may_manage(request: HttpRequest) -> bool:
    """Whether whoever asks has a token that may manage feeds."""
    token = request.auth  # type: ignore[attr-defined]  # ninja sets it
    return isinstance(token, ApiToken) and token.may_manage_feeds


def require_managing(request: HttpRequest) -> ApiToken:
    """The token of the request. Raises Problem when it may not manage feeds."""
    token = cast(ApiToken, request.auth)  # type: ignore[attr-defined]  # ninja sets it
    if not token.may_manage_feeds:
        raise Problem(403, f"The token “{token}” may not manage feeds. The admin can permit it.")
    return token


def require_user(request: HttpRequest) -> int:
    """The id of the user whom the token follows feeds for. Raises Problem when it has none."""
    token = cast(ApiToken, request.auth)  # type: ignore[attr-defined]  # ninja sets it
    if token.user_id is None:
        raise Problem(403, f"The token “{token}” belongs to nobody who could follow feeds. The admin can say to whom.")
    return token.user_id
