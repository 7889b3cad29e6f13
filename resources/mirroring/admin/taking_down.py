"""Takes files down from the admin, after a page that asks whether that is meant: it cannot be taken back."""

import time
from collections.abc import Sequence

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from resources import words

from ..errors import StorageError
from ..knowing.models import Blob, Resource
from ..storing import taking_down

MOST_SECONDS = 5.0
"""For the URLs of all these files: a worker does the rest."""
SAID = "Taken down: {}. They are served no more, and not stored again."
STILL_SERVED = "Their links in the storage could not be removed, so they may still be served: {}. Take them down again."


def ask_or_take_down(
    model_admin: admin.ModelAdmin,  # type: ignore[type-arg]
    request: HttpRequest,
    queryset: QuerySet[Resource] | QuerySet[Blob],
    digests: Sequence[str],
) -> TemplateResponse | None:
    """The page that asks; None once the files are taken down."""
    if not digests:
        model_admin.message_user(request, "None of them has a file.", messages.WARNING)
        return None
    if request.POST.get("sure"):
        done, served = _taken_down(digests)
        for blob in Blob.objects.filter(digest__in=done + served):
            model_admin.log_change(request, blob, "Taken down.")
        model_admin.message_user(request, SAID.format(len(done)))
        if served:
            model_admin.message_user(request, STILL_SERVED.format(", ".join(served)), messages.ERROR)
        return None
    blobs = Blob.objects.filter(digest__in=digests)
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Take files down?",
        "opts": model_admin.opts,
        "files": [(blob, words.size(blob.size)) for blob in blobs],
        "chosen": [row.pk for row in queryset],
        "urls": Resource.objects.filter(blob_digest__in=digests).count(),
    }
    return TemplateResponse(request, "admin/resources/mirroring/take_down.html", context)


def _taken_down(digests: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those that were, and those that nginx may serve all the same."""
    until = time.monotonic() + MOST_SECONDS
    done: list[str] = []
    served: list[str] = []
    for digest in digests:
        try:
            if taking_down.take_down(digest, _share(until)):
                done.append(digest)
        except StorageError:
            served.append(digest)
    return done, served


def _share(until: float) -> float:
    """The seconds that the next file's URLs may take."""
    return max(0.0, min(until - time.monotonic(), taking_down.AT_ONCE_SECONDS))
