"""Pages of the admin, as tests read them, and a user who may only look at them."""

import html
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client


def text_of(response: Any) -> str:
    assert response.status_code == 200, response.status_code
    return html.unescape(response.content.decode())


def said(response: Any) -> list[str]:
    """The messages above the page."""
    assert response.status_code == 200, response.status_code
    return [str(message) for message in response.context["messages"]]


def errors_of(response: Any) -> dict[str, list[str]]:
    """The errors of the page's form, by field."""
    assert response.status_code == 200, response.status_code
    errors: dict[str, list[str]] = response.context["adminform"].form.errors
    return errors


def log_in_to_look(client: Client, model: str) -> None:
    """Logs a user in who may view rows of this model, and change nothing."""
    user = User.objects.create_user("looker", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename=f"view_{model}"))
    client.force_login(user)


def rows_of(prefix: str, *rows: dict[str, str]) -> dict[str, str]:
    """The fields of rows within a page's form, as they are sent."""
    counts = {f"{prefix}-TOTAL_FORMS": str(len(rows)), f"{prefix}-INITIAL_FORMS": str(sum("id" in row for row in rows))}
    fields = {f"{prefix}-{place}-{name}": value for place, row in enumerate(rows) for name, value in row.items()}
    return {**counts, **fields}
