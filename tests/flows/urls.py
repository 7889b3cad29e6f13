"""The site's URLs and those of the slow content."""

from django.urls import include, path

from tests.flows.slow.fetched import fetched

urlpatterns = [
    path("slow/", include("tests.flows.slow.urls")),
    path("fetched/", fetched),
    path("", include("project.urls")),
]
