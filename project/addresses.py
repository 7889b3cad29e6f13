"""Where a request comes from."""

import ipaddress

from django.conf import settings
from django.http import HttpRequest

from retry.networks import network_of
from retry.proxies import is_trusted

OF_THIS_MACHINE = "unix:"
"""nginx' own socket, in a directory that only this user can enter."""


def is_local(request: HttpRequest) -> bool:
    """Whether the request was made on this machine. A request that a proxy passed on counts as from outside."""
    address = _address(request)
    if address == OF_THIS_MACHINE:
        return True
    try:
        return ipaddress.ip_address(address).is_loopback and "X-Forwarded-For" not in request.headers
    except ValueError:
        return False


def network(request: HttpRequest) -> str:
    """What the client has to itself: its IPv4 address, or the /64 of its IPv6 address."""
    return network_of(_address(request)) or OF_THIS_MACHINE


def _address(request: HttpRequest) -> str:
    """nginx reaches the main instance by a unix socket, which has no address, and tells the client's in X-Real-IP.

    Over TCP only TRUSTED_PROXIES are believed: the header could be anybody's.
    """
    peer: str = request.META.get("REMOTE_ADDR", "")
    passed_on = not peer or is_trusted(peer, settings.TRUSTED_PROXIES)
    return request.headers.get("X-Real-IP", "") if passed_on else peer
