"""The site's URLs and those of the slow content."""

from django.urls import include, path

from project.urls import handler400, handler404, handler500

from .slow.fetched import fetched

__all__ = ["handler400", "handler404", "handler500", "urlpatterns"]

urlpatterns = [
    path("slow/", include("tests.flows.slow.urls")),
    path("fetched/", fetched),
    path("", include("project.urls")),
]
