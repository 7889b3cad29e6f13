"""The route of a request. Paths may be secrets; patterns of addresses never are."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.http import HttpRequest


def route_pattern(request: "HttpRequest") -> str:
    """The URL pattern, as `/rsscloud/<str:token>`; empty for an unknown address, or one not resolved yet."""
    match = request.resolver_match
    return f"/{match.route}" if match else ""
