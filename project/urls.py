"""All URLs of the site."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from . import crawlers, health, login

handler404 = "project.middleware.answer_unknown_address"
handler500 = "project.middleware.answer_failure"

urlpatterns = [
    path("", include("retry.urls")),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/login/", login.sign_in),
    path("admin/", admin.site.urls),
    path("", include("resources.api.urls")),
    path("healthz", health.healthz),
    path("metrics", health.show_metrics),
    path("robots.txt", crawlers.show_robots),
    path("", include("feeds.urls")),
    path("", include("resources.urls")),
]
