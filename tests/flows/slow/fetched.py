"""`/fetched/?url=`: bodies of other servers, unchanged. The simplest content that is fetched."""

from collections.abc import Mapping
from hashlib import sha256

from django.http import HttpRequest, HttpResponse

from resources.fetch import conf
from resources.fetch.http.messages import Fetched, FetchFailed, FetchRequest, NotModified
from retry.contents import Prepared
from retry.deferral import serve_or_defer
from retry.errors import PreparationError
from retry.work import Argument, Work


class Page:
    """Fetches `(url, content key)`."""

    obeys_robots = False
    at_once = True

    def fetch(self, *arguments: Argument) -> FetchRequest:
        return FetchRequest(str(arguments[0]), limits=conf.fast_limits())

    def prepare(self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument) -> Mapping[str, Prepared]:
        if not isinstance(outcome, Fetched):
            raise PreparationError(outcome.detail if isinstance(outcome, FetchFailed) else "Nothing new.")
        return {str(arguments[1]): Prepared(outcome.body.read(), "text/plain", 3600, 3600)}


TASK = Page()


def fetched(request: HttpRequest) -> HttpResponse:
    work = page_work(request.GET["url"])
    return serve_or_defer(request, str(work.arguments[1]), work)


def page_work(url: str) -> Work:
    """The work of fetching that page."""
    key = f"fetched:{sha256(url.encode()).hexdigest()}"
    return Work(f"fetch:{key}", "fetched", "fetch.fast", "fetch.refresh", "slow.fetch", (url, key))
