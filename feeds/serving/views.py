"""Pages of feeds over HTTP: serves, defers, or says what is wrong with the parameters."""

from django.http import HttpRequest, HttpResponse

from feeds.composing import subjects
from feeds.composing.asking import Asked
from feeds.composing.errors import AskError, UnknownError
from resources import outages
from retry import methods, responses, serving

from .work import render_work

NOT_FOUND = "There is no such feed."


@methods.read_only
@outages.told
def feed(request: HttpRequest, address: str) -> HttpResponse:
    """`/feeds/<slug>.<atom|rss|json>`, `/feeds/category/<slug>.…`, `/feeds/all.…`, and the pages for people."""
    try:
        asked = Asked.read(request.path, dict(request.GET.lists()))
        subject = subjects.find(asked) if asked else None
    except AskError as error:
        return responses.problem(400, str(error), cache_status="Tarry; fwd=bypass")
    except UnknownError:
        return responses.not_found(NOT_FOUND)
    if asked is None or subject is None or asked.format == "html":
        return responses.not_found(NOT_FOUND)
    work = render_work(asked, subject.version)
    return serving.serve_or_defer(request, asked.content_key, work, version=subject.version)
