"""The admin of who follows what."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from ..keeping import following
from ..models import Follow


@admin.register(Follow)
class FollowAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    list_display = ("user", "feed", "since")
    list_select_related = ("user", "feed")
    search_fields = ("=user__username", "feed__slug")
    search_help_text = "The whole name of a user, or a part of a feed's slug."
    autocomplete_fields = ("user", "feed")
    list_per_page = 50
    show_full_result_count = False

    def has_change_permission(self, request: HttpRequest, obj: Follow | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Follow, form: Any, change: bool) -> None:
        obj.save()
        following.recount([obj.feed_id])

    def delete_model(self, request: HttpRequest, obj: Follow) -> None:
        following.unfollow(obj.user_id, [obj.feed_id])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Follow]) -> None:
        feeds = set(queryset.values_list("feed_id", flat=True))
        queryset.delete()
        following.recount(feeds)
