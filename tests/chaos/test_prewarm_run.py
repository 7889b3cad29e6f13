"""Pre-warming beside the client: it never ends by itself, and something comes of it."""

import pytest

from .prewarm_run import of_output

PASS = "1,024 pieces prepared (8,192 tiles), 3 fresh already, 0 by others, 0 failed; 900 tiles in the hot cache"
IDLE = "0 pieces prepared (0 tiles), 3 fresh already, 0 by others, 0 failed; 0 tiles in the hot cache"


@pytest.mark.parametrize(
    ("said", "ended_itself", "found"),
    [
        (PASS, False, []),
        (f"{IDLE}\n{PASS}\nStopped.", False, []),
        (f"{IDLE}\n{IDLE}", False, ["nothing was pre-warmed"]),
        ("Traceback", False, ["nothing was pre-warmed"]),
        (PASS, True, ["pre-warming ended by itself"]),
    ],
)
def test_a_run_has_prepared_something_and_was_ended(said: str, ended_itself: bool, found: list[str]) -> None:
    assert [one.partition(":")[0] for one in of_output(said, ended_itself=ended_itself)] == found
