"""What a form is answered that no page of this site has sent (CSRF), or one that is too old."""

from django.http import HttpRequest, HttpResponse

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Not sent</title></head>
<body><h1>Not sent</h1><p>This site did not give out this form, or has forgotten it. Reload the page, with cookies
allowed, and send the form again.</p></body>
</html>
"""


def unsigned_form(_: HttpRequest, reason: str = "") -> HttpResponse:
    """403. Unlike Django's own page it has no style of its own, which the policy forbids. Does not say `reason`."""
    return HttpResponse(_PAGE, status=403, headers={"Cache-Control": "no-store"})
