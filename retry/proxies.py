"""Whether an address belongs to a proxy whose word about its client is taken. PURE."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache


@lru_cache(maxsize=1024)
def is_trusted(address: str, proxies: Sequence[str]) -> bool:
    """`proxies` are addresses and networks, as `10.1.0.0/16`. What is no address is not trusted."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(found in ipaddress.ip_network(proxy, strict=False) for proxy in proxies)
