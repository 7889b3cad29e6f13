"""Which addresses are one client's."""

import pytest

from retry.networks import network_of


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8::6", "2001:db8::/64"),
        ("unix:", "unix:"),
        ("", ""),
    ],
)
def test_a_client_has_an_ipv4_address_or_half_an_ipv6_address(address: str, network: str) -> None:
    assert network_of(address) == network
