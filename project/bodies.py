"""Who may send the admin more than a form: the CSRF check reads all that is sent, before anybody asks who sent it."""

from collections.abc import Callable

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

FORM_MAX_BYTES = 65_536
"""What anybody may send, as the sign-in."""

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Not taken</title></head>
<body><h1>Not taken</h1><p>Nobody is signed in here, or nobody any longer. <a href="/admin/">Sign in</a>, then send it
again.</p></body>
</html>
"""


class LargeBodiesMiddleware:
    """Answers large bodies for the admin with 403 unless their sender is signed in. Reads nothing of them.

    Stands after the middleware that knows sessions and users, and before all that read forms.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if _is_large(request) and not admin.site.has_permission(request):
            return HttpResponse(_PAGE, status=403, headers={"Cache-Control": "no-store"})
        return self.get_response(request)


def _is_large(request: HttpRequest) -> bool:
    """Whether it is for the admin, and longer than a form."""
    try:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:  # of which Django reads nothing
        return False
    return length > FORM_MAX_BYTES and request.path_info.startswith("/admin")
