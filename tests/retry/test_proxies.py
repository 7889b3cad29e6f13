"""Whose word about a client's address is taken."""

import pytest

from retry.proxies import is_trusted

PROXIES = ("10.1.0.0/16", "192.0.2.7", "2001:db8::/32")


@pytest.mark.parametrize("address", ["10.1.0.1", "10.1.255.255", "192.0.2.7", "2001:db8::1"])
def test_an_address_within_a_trusted_network_is_trusted(address: str) -> None:
    assert is_trusted(address, PROXIES)


@pytest.mark.parametrize("address", ["10.2.0.1", "192.0.2.8", "2001:db9::1", "", "unix:", "10.1.0.1.evil"])
def test_anything_else_is_not(address: str) -> None:
    assert not is_trusted(address, PROXIES)
