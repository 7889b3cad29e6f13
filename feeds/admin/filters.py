"""What the list of feeds can be narrowed to."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from ..keeping import categories, health
from ..models import ALL, Category, Feed

TWICE = "twice"


class HealthFilter(admin.SimpleListFilter):
    title, parameter_name = "health", "health"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        named = [(name, health.LABELS.get(name, name)) for name in health.CHOICES]
        return [*named, (TWICE, "likely duplicates")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Feed]) -> QuerySet[Feed]:
        if self.value() == TWICE:
            return health.likely_duplicates(queryset)
        chosen = health.CHOICES.get(self.value() or "")
        return queryset if chosen is None else queryset.filter(chosen)


class CategoryFilter(admin.SimpleListFilter):
    """With the feeds of the categories below."""

    title, parameter_name = "category", "category"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        slugs = dict(Category.objects.exclude(slug=ALL).values_list("pk", "slug"))
        paths = sorted((path, pk) for pk, path in categories.all_paths().items())
        return [(slugs[pk], " / ".join(path)) for path, pk in paths if pk in slugs]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Feed]) -> QuerySet[Feed]:
        if not self.value():
            return queryset
        link = Feed.categories.through._default_manager
        ids = link.filter(category_id__in=categories.with_those_below(str(self.value()))).values("feed_id")
        return queryset.filter(pk__in=ids)
