"""The site's URLs and those of the slow content."""

from django.urls import include, path

urlpatterns = [
    path("slow/", include("tests.flows.slow.urls")),
    path("", include("project.urls")),
]
