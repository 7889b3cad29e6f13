"""Whether others on the internet can reach a host by its name, as far as the name tells."""

import ipaddress


def may_be_reached(host: str) -> bool:
    """False for this machine, private networks, and names without a dot."""
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        name = host.lower().rstrip(".")
        return "." in name and not name.endswith((".localhost", ".local", ".internal", ".test", ".invalid", ".example"))
