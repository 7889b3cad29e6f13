"""What callbacks refuse, and how they say it: before anything is looked up."""

from collections.abc import Callable, Collection
from functools import wraps

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from resources import outages
from retry import responses

from ..errors import FeedError

BYPASSED = "Tarry; fwd=bypass"
NO_SUBSCRIPTION = "There is no such subscription."


class RefusedError(FeedError):
    """What was sent is not taken. Its text is for whoever sent it."""

    def __init__(self, status: int, detail: str, **fields: str) -> None:
        super().__init__(detail)
        self.status, self.fields = status, fields


View = Callable[[HttpRequest, str], HttpResponse]


def callback(*methods: str) -> Callable[[View], View]:
    """A view that hubs call, by these methods, and by no browser: problems are answered as such."""

    named = " and ".join(methods)

    def decorated(view: View) -> View:
        @wraps(view)
        @outages.told
        def answered(request: HttpRequest, token: str) -> HttpResponse:
            if request.method not in methods:
                return refusal(RefusedError(405, f"Only {named} are answered here.", Allow=", ".join(methods)))
            try:
                return view(request, nameable(token))
            except RefusedError as error:
                return refusal(error)

        return csrf_exempt(answered)

    return decorated


def nameable(name: str) -> str:
    """The same. Raises RefusedError for what databases cannot hold: nothing goes by that name."""
    if "\0" in name:
        raise RefusedError(404, NO_SUBSCRIPTION)
    return name


def refusal(error: RefusedError) -> HttpResponse:
    response = responses.problem(error.status, str(error), cache_status=BYPASSED)
    for name, value in error.fields.items():
        response[name] = value
    return response


def text(body: str | bytes, content_type: str = "text/plain; charset=utf-8") -> HttpResponse:
    """200 with these words, which nobody keeps, and no browser takes for anything else."""
    fields = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return HttpResponse(body, content_type=content_type, headers=fields)


def body_of(request: HttpRequest, content_types: Collection[str], most_bytes: int) -> bytes:
    """The body, no more of which is read than may be. Empty types: any. Raises RefusedError."""
    if content_types and (request.content_type or "").lower() not in content_types:
        raise RefusedError(415, f"Send {' or '.join(content_types)}, named in Content-Type.")
    body = request.read(most_bytes + 1)
    if len(body) > most_bytes:
        raise RefusedError(413, f"At most {most_bytes:,} bytes are taken here.")
    return bytes(body)
