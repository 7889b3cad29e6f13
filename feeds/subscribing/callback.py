"""The addresses of this site that hubs and clouds call."""

from django.conf import settings


def url(kind: str, token: str) -> str:
    """The absolute URL that belongs to a subscription; `kind` is the protocol's."""
    return f"{settings.PUBLIC_URL}/{kind}/{token}"
