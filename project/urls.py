"""All URLs of the site."""

from django.contrib import admin
from django.urls import include, path

from . import health, metrics

urlpatterns = [
    path("", include("retry.urls")),
    path("admin/", admin.site.urls),
    path("", include("resources.api.urls")),
    path("healthz", health.healthz),
    path("metrics", metrics.metrics),
    path("", include("resources.urls")),
]
