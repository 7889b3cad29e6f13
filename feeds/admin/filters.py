"""The filters on the pages of feeds and of categories, checked when they are saved."""

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest

from .. import filters
from ..errors import FilterError
from ..models import Category, EntryFilter, Feed
from ..pages import entry_filters
from ..pages.entry_filters import MAX_FILTERS

WORDS_HELP = 'As a search: words, begin*, "phrases", -excluded, title: author: tag:.'
TAGS_HELP = 'Terms of tag:, as tag:sea tag:"deep sea"; an entry matches that has all of them. For this output alone.'
PATTERN_HELP = "An expression of RE2, in place of words. Case does not count."
_TEXT_INPUT = {"size": 26, "autocomplete": "off", "spellcheck": "false"}


class FilterForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's classes take no parameters
    class Meta:
        model = EntryFilter
        fields = ("action", "words", "pattern", "field")
        labels = {"field": "Pattern in"}
        help_texts = {"words": WORDS_HELP, "pattern": PATTERN_HELP}
        widgets = {name: forms.TextInput(attrs={**_TEXT_INPUT, "placeholder": name}) for name in ("words", "pattern")}

    is_of_category = False

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        names = [name for name in FilterForm.Meta.fields if name in self.fields]
        if any(name not in cleaned for name in names):
            return cleaned
        given = EntryFilter(category_id=0 if self.is_of_category else None, **{name: cleaned[name] for name in names})
        try:
            entry_filters.check_filter(given)
        except FilterError as error:
            self.add_error(error.part if error.part in self.fields else None, str(error))
        return {**cleaned, **{name: getattr(given, name) for name in names}}


class CategoryFilterForm(FilterForm):
    class Meta(FilterForm.Meta):
        fields = ("action", "words")  # type: ignore[assignment]  # two fewer
        labels = {"words": "Tags"}
        widgets = {"words": forms.TextInput(attrs={**_TEXT_INPUT, "placeholder": "tag:"})}
        help_texts = {"words": TAGS_HELP}

    is_of_category = True


class FilterInline(admin.TabularInline):  # type: ignore[type-arg]
    """Who may change the feed or the category may change its filters."""

    model = EntryFilter
    form = FilterForm
    fields = FilterForm.Meta.fields
    extra, max_num = 0, MAX_FILTERS
    verbose_name_plural = "filters of its entries"

    class Media:
        css = {"all": ("feeds/admin.css",)}

    def get_formset(self, request: HttpRequest, obj: Any = None, **options: Any) -> type[BaseInlineFormSet]:  # type: ignore[type-arg]
        return super().get_formset(request, obj, validate_max=True, **options)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._has(request, "view") or self._has(request, "change")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._has(request, "change")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._has(request, "change")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._has(request, "change")

    def _has(self, request: HttpRequest, action: str) -> bool:
        name = self.parent_model._meta.model_name
        return bool(request.user.has_perm(f"feeds.{action}_{name}"))


class CategoryFilterInline(FilterInline):
    form = CategoryFilterForm
    fields = CategoryFilterForm.Meta.fields  # type: ignore[assignment]
    verbose_name_plural = "filters of its output"


def note_changes(model_admin: Any, request: HttpRequest, subject: Feed | Category, formsets: Any) -> None:
    """Has saved filters of a feed or a category take effect, and tells how much they hide."""
    if not any(formset.model is EntryFilter and formset.has_changed() for formset in formsets):
        return
    if isinstance(subject, Feed):
        filters.judge_feed_anew(subject.pk)
    else:
        filters.show_category_anew(subject.pk, datetime.now(UTC))
    hidden, newest = filters.preview_filters(subject)
    if newest:
        model_admin.message_user(request, f"The filters hide {hidden} of the newest {newest} entries.")
