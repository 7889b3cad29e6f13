"""`gunicorn benchmarks.peers.blocking_app:application`: slow content by Django, prepared in the thread of its request.

The preparer is that of the tests' slow content. The environment: DATA_DIR, for its notes; TILE, a file; KEEPS=1, to
keep prepared content in Django's cache, for sites without a cache in front.
"""

import os
from pathlib import Path

from django.conf import settings
from django.core.wsgi import get_wsgi_application

DATA_DIR = Path(os.environ["DATA_DIR"])
KEEPS = os.environ.get("KEEPS") == "1"
FOR_AN_HOUR = "public, max-age=3600"

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    CACHES={"default": {"BACKEND": "django.core.cache.backends.filebased.FileBasedCache", "LOCATION": DATA_DIR / "c"}},
    DATA_DIR=DATA_DIR,
    ROOT_URLCONF=__name__,
    SECRET_KEY="for this run",
    USE_TZ=True,
)

from django.core.cache import cache  # noqa: E402  needs the settings
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

application = get_wsgi_application()

from tests.flows.slow.slow_content import SlowContent  # noqa: E402
from tests.flows.slow.tasks import make  # noqa: E402

TILE = Path(os.environ["TILE"]).read_bytes()


def slow(request: HttpRequest, name: str) -> HttpResponse:
    """Content of that name, as the site's own test content: `?seconds=&size=`."""
    body = cache.get(name) if KEEPS else None
    if body is None:
        body = _prepared(SlowContent.from_query(name, request.GET))
        if KEEPS:
            cache.set(name, body)
    return _answer(body, "image/png")


def picture(request: HttpRequest, z: int, x: int, y: int) -> HttpResponse:
    """A tile after as many milliseconds as the last four digits of its column."""
    _prepared(SlowContent(f"{z}-{x}-{y}", seconds=x % 10_000 / 1000))
    return _answer(TILE, "image/png")


def _answer(body: bytes, content_type: str) -> HttpResponse:
    headers = {"Cache-Control": FOR_AN_HOUR, "Content-Length": str(len(body))}
    return HttpResponse(body, content_type=content_type, headers=headers)


def _prepared(wanted: SlowContent) -> bytes:
    [content] = make(wanted, 0).values()
    return content.body


urlpatterns = [path("slow/<str:name>", slow), path("tiles/<int:z>/<int:x>/<int:y>.png", picture)]
