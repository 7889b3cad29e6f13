"""`/robots.txt`: the addresses that search engines leave out."""

from django.http import HttpRequest, HttpResponse

from retry import responses

# The waiting instance is not left out: search engines would follow no redirect there, and never see cold pages.
LEFT_OUT = ("/admin/", "/api/", "/feeds/*?q=", "/feeds/*&q=", "/metrics", "/healthz")
CLIENT_SECONDS = 3600

_TEXT = "".join(["User-agent: *\n", *(f"Disallow: {address}\n" for address in LEFT_OUT)]).encode()


@responses.read_only
def show_robots(request: HttpRequest) -> HttpResponse:
    """Searches are without number, and the API is for programs."""
    return responses.constant_response(
        request, _TEXT, "text/plain; charset=utf-8", shared_seconds=CLIENT_SECONDS, client_seconds=CLIENT_SECONDS
    )
