"""The admin of categories: combinations of feeds, one in another."""

from datetime import UTC, datetime
from typing import Any, cast

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from ..keeping import categories, versions
from ..models import ALL, Category, Feed
from .forms import CategoryForm


@admin.register(Category)
class CategoryAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    form = CategoryForm
    list_display = ("listed", "slug", "number", "output")
    search_fields = ("title", "slug")
    prepopulated_fields = {"slug": ("title",)}
    list_per_page = 200
    show_full_result_count = False

    @admin.display(description="category", ordering="title")
    def listed(self, category: Category) -> str:
        return " / ".join(self._paths.get(category.pk, (category.title,)))

    @admin.display(description="feeds of its own")
    def number(self, category: Any) -> str:
        return "every feed" if category.slug == ALL else f"{category.number:,}"

    @admin.display(description="as")
    def output(self, category: Category) -> SafeString:
        place = "/feeds/all" if category.slug == ALL else f"/feeds/category/{category.slug}"
        links = ((f"{place}.{extension}", extension) for extension in ("atom", "rss", "json"))
        return format_html_join(" · ", '<a href="{}">{}</a>', links)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Category]:
        self._paths = categories.all_paths()
        rows: QuerySet[Category] = super().get_queryset(request)
        return cast(QuerySet[Category], rows.annotate(number=Count("feeds")))

    def get_prepopulated_fields(self, request: HttpRequest, obj: Category | None = None) -> dict[str, Any]:
        return {} if obj is not None else {"slug": ("title",)}

    def get_readonly_fields(self, request: HttpRequest, obj: Category | None = None) -> tuple[str, ...]:
        """The one that has every feed keeps its place and its address."""
        return ("slug", "parent") if obj is not None and obj.slug == ALL else ()

    def has_delete_permission(self, request: HttpRequest, obj: Category | None = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or obj.slug != ALL)

    def save_model(self, request: HttpRequest, obj: Category, form: Any, change: bool) -> None:
        """Its output, and that of those around it, changes."""
        now = datetime.now(UTC)
        versions.touch_categories([obj.pk] if change else [], now, withdrawn="parent" in form.changed_data)
        obj.save(update_fields=[name for name in form.changed_data if name in form.cleaned_data] if change else None)
        versions.touch_categories([obj.pk], now)

    def delete_model(self, request: HttpRequest, obj: Category) -> None:
        self.delete_queryset(request, Category.objects.filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Category]) -> None:
        """Those below go with it; their feeds stay."""
        gone = queryset.exclude(slug=ALL)
        versions.touch_categories(list(gone.values_list("pk", flat=True)), datetime.now(UTC), withdrawn=True)
        gone.delete()

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """The categories, with those below them. The one that has every feed stays."""
        ids = {pk for category in objs if category.slug != ALL for pk in categories.with_those_below(category.slug)}
        paths = categories.all_paths()
        rows = sorted(" / ".join(paths[pk]) for pk in ids if pk in paths)
        denied = set() if self.has_delete_permission(request) else {self.opts.verbose_name}
        feeds = Feed.objects.filter(categories__in=ids).distinct().count()
        counts = {self.opts.verbose_name_plural: len(rows), "feeds that stay": feeds}
        return rows, counts, denied, []
