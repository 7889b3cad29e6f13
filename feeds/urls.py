"""URLs of feeds."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from .callbacks import clouds, hubs
from .serving import views


class AnyFeedAddress(StringConverter):
    """Whatever follows: the view answers for all of it, so that no address gets another kind of 404."""

    regex = r"[\s\S]*"


class WithoutSlash(StringConverter):
    """A page for people, whose address lacks its slash."""

    regex = "[a-z0-9-]+|category/[a-z0-9-]+"


register_converter(AnyFeedAddress, "any_feed_address")
register_converter(WithoutSlash, "without_slash")

urlpatterns = [
    path("rsscloud/<str:token>", clouds.rsscloud),
    path("websub/<str:token>", hubs.hub),
    path("feeds", views.with_slash),
    path("feeds/<without_slash:address>", views.with_slash),
    path("feeds/<any_feed_address:address>", views.feed, name="feeds"),
]
