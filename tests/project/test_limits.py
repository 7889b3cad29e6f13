"""What is made of this machine's limits."""

import pytest

from project.limits import nginx_limits


@pytest.mark.parametrize("files", [1024, 20_000, 1_048_576])
def test_connections_and_files_kept_open_fit_into_the_limit_together(files: int) -> None:
    limits = nginx_limits(files, waiting_clients=20_000)
    assert limits.connections + limits.kept_open < files
    assert limits.kept_open >= 16


def test_there_are_two_connections_for_every_waiting_client_where_files_allow() -> None:
    assert nginx_limits(1_048_576, waiting_clients=20_000).connections >= 40_000
    assert nginx_limits(20_000, waiting_clients=20_000).connections >= 16_000
