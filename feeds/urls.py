"""The URLs of feeds: the callbacks of hubs and clouds, this site's own, and everything under `/feeds`."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from . import views as feeds_views
from .hub import views as hub_views
from .subscriptions import views


class AnyFeedAddressConverter(StringConverter):
    """Any rest of the path: the view answers for all of it, so that no address gets another kind of 404."""

    regex = r"[\s\S]*"


class WithoutSlashConverter(StringConverter):
    """The address of an HTML page without its slash."""

    regex = "[a-z0-9-]+|category/[a-z0-9-]+"


register_converter(AnyFeedAddressConverter, "any_feed_address")
register_converter(WithoutSlashConverter, "without_slash")

urlpatterns = [
    path("feeds", feeds_views.redirect_with_slash),
    path("feeds/<without_slash:address>", feeds_views.redirect_with_slash),
    path("feeds/<any_feed_address:address>", feeds_views.serve_feed_page, name="feeds"),
    path("rsscloud/<str:token>", views.rsscloud_callback),
    path("websub/<str:token>", views.websub_callback),
    path("hub", hub_views.hub),
    path("hub/cloud", hub_views.cloud),
]
