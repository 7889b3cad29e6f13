"""`/slow/<name>?seconds=&size=&behaviour=&fresh=&stale=&version=&gated=&html=&kind=&later=`."""

from django.http import HttpRequest, HttpResponse

from retry.deferral import serve_or_defer
from retry.work import Work

from .slow_content import SlowContent


def slow(request: HttpRequest, name: str) -> HttpResponse:
    """Content of that name. Its preparation follows the arguments of the request that starts it."""
    wanted = SlowContent.from_query(name, request.GET)
    work = Work(
        key=f"slow:{name}:{wanted.version}",
        kind=f"slow:{request.GET.get('kind', name)}",
        lane="paint.now",
        refresh_lane=request.GET.get("later", "paint.refresh"),
        task="slow.prepare",
        arguments=wanted.arguments,
    )
    html = request.GET.get("html") == "1"
    return serve_or_defer(request, f"slow:{name}", work, version=wanted.version, html=html, as_is=True)
