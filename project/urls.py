"""All URLs of the site, and those that search engines leave out."""

from importlib import import_module

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.views.generic import RedirectView

from retry import responses

from . import health, login

# The waiting instance is not left out: search engines would follow no redirect there, and never see cold pages.
LEFT_OUT = ("/admin/", "/api/", "/feeds/*?q=", "/feeds/*&q=", "/metrics", "/healthz")
ROBOTS_SECONDS = 3600

_ROBOTS_TEXT = "".join(["User-agent: *\n", *(f"Disallow: {address}\n" for address in LEFT_OUT)]).encode()


@responses.read_only
def show_robots(request: HttpRequest) -> HttpResponse:
    """`/robots.txt`: searches are without number, and the API is for programs."""
    return responses.constant_response(
        request, _ROBOTS_TEXT, "text/plain; charset=utf-8", shared_seconds=ROBOTS_SECONDS, client_seconds=ROBOTS_SECONDS
    )


admin.autodiscover()

handler400 = "project.middleware.answer_malformed"
handler404 = "project.middleware.answer_unknown_address"
handler500 = "project.middleware.answer_failure"

urlpatterns = [
    # Requests of content are many: no pattern comes before theirs, and no include() takes its time for each.
    *import_module("resources.urls").urlpatterns,
    *import_module("feeds.urls").urlpatterns,
    path("", include("retry.urls")),
    path("admin", responses.read_only(RedirectView.as_view(pattern_name="admin:index"))),
    path("admin/login/", login.sign_in),
    path("admin/", admin.site.urls),
    path("", include("resources.api.urls")),
    path("healthz", health.healthz),
    path("healthz/live", health.show_live),
    path("healthz/ready", health.show_ready),
    path("metrics", health.show_metrics),
    path("robots.txt", show_robots),
]
