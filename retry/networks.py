"""Which addresses are one client's. PURE."""

import ipaddress


def network_of(address: str) -> str:
    """What a client has to itself: its IPv4 address, or the /64 of its IPv6 address, in which it may take any.

    What is no address is left as it stands.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(getattr(found, "ipv4_mapped", None) or found)
