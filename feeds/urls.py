"""URLs of feeds."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from .serving import views


class AnyFeedAddress(StringConverter):
    """Whatever follows: the view answers for all of it, so that no address gets another kind of 404."""

    regex = r"[\s\S]*"


register_converter(AnyFeedAddress, "any_feed_address")

urlpatterns = [path("feeds/<any_feed_address:address>", views.feed, name="feeds")]
