"""Addresses of slow content, parsed."""

from resources.traffic.asked import Asked


def asked(address: str) -> Asked:
    name = address.removeprefix("/slow/")
    return Asked("slow", name, f"slow:{name}")
