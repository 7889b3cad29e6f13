"""Configurations with another waiting address: nginx' file, and contradictions."""

import pytest

from project.nginx_config import WaitingSite, read_waiting_site
from project.preflight import StartError

HOSTS = ["tiles.example", "127.0.0.1", ".sub.example"]
OWN = "127.0.0.1:8000"


@pytest.mark.parametrize(
    ("server", "listen", "expected"),
    [
        ("/retry_after", "", WaitingSite()),
        ("https://wait.example/retry_after", "", WaitingSite("wait.example")),
        ("https://tiles.example/retry_after", "", WaitingSite()),
        ("https://a.sub.example:8443/retry_after", "", WaitingSite()),
        ("http://127.0.0.1:8001/retry_after", "127.0.0.1:8001", WaitingSite("127.0.0.1", "127.0.0.1:8001")),
        ("https://wait.example/retry_after", "0.0.0.0:8001", WaitingSite("wait.example", "0.0.0.0:8001")),
        ("http://[::1]:8001/retry_after", "[::1]:8001", WaitingSite("[::1]", "[::1]:8001")),
    ],
)
def test_nginx_answers_where_clients_wait(server: str, listen: str, expected: WaitingSite) -> None:
    assert read_waiting_site(server, listen, HOSTS, OWN) == expected


@pytest.mark.parametrize("listen", ["8001", "localhost", "127.0.0.1:0", "127.0.0.1:70000", "a b:1", "x:1;", ":8001"])
def test_what_is_no_address_and_port_is_refused(listen: str) -> None:
    with pytest.raises(StartError, match="address and a port"):
        read_waiting_site("http://127.0.0.1:8001/wait", listen, HOSTS, OWN)


@pytest.mark.parametrize(
    ("server", "listen", "words"),
    [("/retry_after", "127.0.0.1:8001", "is a path"), ("http://127.0.0.1:8000/wait", OWN, "listens already")],
)
def test_contradictions_are_named(server: str, listen: str, words: str) -> None:
    with pytest.raises(StartError, match=words):
        read_waiting_site(server, listen, HOSTS, OWN)


def test_the_port_of_its_own_is_known() -> None:
    assert WaitingSite("::1", "[::1]:8001").address == ("[::1]", 8001)
