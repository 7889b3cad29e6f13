"""Which kind of address a request is for. Paths may be secrets; patterns of addresses never are."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.http import HttpRequest


def route(request: "HttpRequest") -> str:
    """As `/rsscloud/<str:token>`; empty for an address that is none of the site's, or was not looked at."""
    match = request.resolver_match
    return f"/{match.route}" if match else ""
