"""`{% load mirrored %}`: addresses under which this site serves files of other servers."""

from django import template

from ..mirror import links
from ..mirror.errors import UrlError

register = template.Library()


@register.simple_tag
def mirrored(url: str) -> str:
    """`{% mirrored url %}`: the signed address of the URL's mirrored file; empty for a URL that cannot be mirrored."""
    try:
        return links.sign_url(url)
    except UrlError:
        return ""
