"""All URLs of the site."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from . import health, metrics, signing_in

handler404 = "project.unknown.unknown_address"
handler500 = "project.failing.failed"

urlpatterns = [
    path("", include("retry.urls")),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/login/", signing_in.sign_in),
    path("admin/", admin.site.urls),
    path("", include("resources.api.urls")),
    path("healthz", health.healthz),
    path("metrics", metrics.metrics),
    path("", include("feeds.urls")),
    path("", include("resources.urls")),
]
