"""Takes in a list of feeds (OPML) from the admin: a page to choose the file, which can first say what it would do."""

from datetime import UTC, datetime
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import AbstractBaseUser
from django.core.files.base import File
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from ..errors import FeedError, OpmlError
from ..keeping import lists
from ..keeping.lists import Imported
from ..opml import reading
from ..opml.outlines import FeedList, Limits

MOST_FEEDS = 5_000
"""More would keep the browser waiting for too long."""
MOST_SHOWN = 100


class ListForm(forms.Form):
    """A file, and what is to be done with it."""

    file = forms.FileField(label="List", help_text="OPML, as other readers export it.")
    follow = forms.BooleanField(required=False, label="Follow all of them")
    dry_run = forms.BooleanField(required=False, initial=True, label="Only say what would be done")

    found: FeedList | None = None

    def clean_file(self) -> File[bytes]:
        file = cast(File[bytes], self.cleaned_data["file"])
        try:
            found = reading.parse(file.read(Limits().max_bytes + 1))
        except OpmlError as error:
            raise forms.ValidationError(str(error)) from error
        if len(found.subscriptions) > MOST_FEEDS:
            raise forms.ValidationError(
                f"This list has {len(found.subscriptions):,} feeds; {MOST_FEEDS:,} are taken in here at the most. "
                "On the machine, `manage.py import_opml` takes any number."
            )
        self.found = found
        return file


def ask_or_take_in(model_admin: admin.ModelAdmin, request: HttpRequest) -> HttpResponse:  # type: ignore[type-arg]
    """The page with the form, and below it what would be done; the list of feeds once it is done."""
    form = ListForm(request.POST or None, request.FILES or None)
    context: dict[str, Any] = {
        **model_admin.admin_site.each_context(request),
        "title": "Import a list of feeds",
        "opts": model_admin.opts,
        "form": form,
        "most_shown": MOST_SHOWN,
    }
    if request.method == "POST" and form.is_valid() and form.found is not None:
        if not form.cleaned_data["dry_run"]:
            try:
                _take_in(model_admin, request, form.found, follows=form.cleaned_data["follow"])
            except FeedError as error:
                model_admin.message_user(request, f"{error} What was added stays.", messages.ERROR)
            return HttpResponseRedirect(reverse("admin:feeds_feed_changelist"))
        new, known = lists.foresee(form.found)
        context |= {"found": form.found, "new": new[:MOST_SHOWN], "new_in_all": len(new), "known": known}
    return TemplateResponse(request, "admin/feeds/feed/import.html", context)


def _take_in(
    model_admin: admin.ModelAdmin,  # type: ignore[type-arg]
    request: HttpRequest,
    found: FeedList,
    *,
    follows: bool,
) -> None:
    follower = cast(AbstractBaseUser, request.user).pk if follows else None
    done = sum(lists.take_in(found, follower, datetime.now(UTC)), Imported())
    said = f"Feeds added: {done.added:,}, there before: {done.known:,}, repeated in the list: {found.duplicates:,}."
    model_admin.message_user(request, said)
    for each in found.left_out[:MOST_SHOWN]:
        text = f"Left out, line {each.line}: {each.text or 'without a name'}. {each.why}"
        model_admin.message_user(request, text, messages.WARNING)
