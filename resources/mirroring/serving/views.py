"""Mirrored files over HTTP: by digest, or by a URL that this site has signed."""

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from resources import outages
from retry import methods, responses, serving
from retry.contents import Content

from ..canonical.urls import goes_by, known_as
from ..errors import ForgedError, MirrorError
from ..gathering.work import content_key, mirror_work
from ..knowing import seen
from ..knowing.models import Blob, State
from ..knowing.rules import current_rules
from ..knowing.seen import Seen
from . import addresses, failures
from .delivering import deliver
from .fields import BY_DIGEST, BY_URL

NOT_FOUND = "There is no such file."


@methods.read_only
@outages.told
def by_digest(request: HttpRequest, digest: str) -> HttpResponseBase:
    """`/resources/<digest>`: what has that SHA-256, for good."""
    blob = Blob.objects.filter(digest=digest).first()
    return deliver(request, blob, BY_DIGEST) if blob else responses.not_found(NOT_FOUND)


@methods.read_only
@outages.told
def by_url(request: HttpRequest, signature: str, encoded: str) -> HttpResponseBase:
    """`/resources/<signature>/<URL>`: what the URL gave, or a redirect to the waiting instance while it is fetched."""
    try:
        url = addresses.verify(signature, encoded)
        digests = known_as(url, current_rules())
    except ForgedError as error:
        return responses.problem(403, str(error), cache_status="Tarry; fwd=bypass")
    except MirrorError as error:
        return responses.problem(400, str(error), cache_status="Tarry; fwd=bypass")
    found = seen.look_up(digests)
    digest = goes_by(digests, found, lambda one: one.state is State.STORED)
    known = found.get(digest)
    if blob := _blob(known):
        return deliver(request, blob, BY_URL)
    if known and (refusal := failures.refusal(known)):
        return refusal
    return serving.deliver_or_defer(request, content_key(digest), mirror_work(url, digest), _fetched)


def _fetched(request: HttpRequest, content: Content) -> HttpResponseBase:
    """It was fetched a moment ago: the content is its digest."""
    blob = Blob.objects.filter(digest=content.body.decode(errors="replace")).first()
    return deliver(request, blob, BY_URL) if blob else responses.not_now("The file was stored, and is gone again.")


def missing(request: HttpRequest, address: str) -> HttpResponse:
    """Whatever else begins so."""
    return responses.not_found(NOT_FOUND)


def _blob(known: Seen | None) -> Blob | None:
    """What is stored for a URL, also while it is fetched again; what was taken down, too."""
    if known is None or not known.blob_digest:
        return None
    return Blob.objects.filter(digest=known.blob_digest).first()
