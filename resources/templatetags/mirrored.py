"""`{% load mirrored %}`: addresses under which this site serves files of other servers."""

from django import template

from resources.mirroring.errors import UrlError
from resources.mirroring.serving import addresses

register = template.Library()


@register.simple_tag
def mirrored(url: str) -> str:
    """`{% mirrored url %}`: the signed address of the URL's mirrored file; empty for a URL that cannot be mirrored."""
    try:
        return addresses.sign_url(url)
    except UrlError:
        return ""
