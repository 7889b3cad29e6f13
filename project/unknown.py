"""What addresses that nobody knows are answered with."""

from django.http import HttpRequest, HttpResponseBase
from django.views.defaults import page_not_found

from retry import preferences, responses


def unknown_address(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """404, as a problem like all others here; as a page where a browser shows it to a person."""
    if preferences.is_navigation(request.headers.get("Sec-Fetch-Mode"), request.headers.get("Accept")):
        page = page_not_found(request, exception)
        page["Cache-Control"] = "no-store"
        return page
    return responses.problem(404, "There is no such address.", cache_status="Tarry; fwd=bypass; detail=unknown")
