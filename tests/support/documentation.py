"""Commands that docs/operations.md names, carried out as they stand there."""

import re
import subprocess

from .stack import ROOT, Stack

OPERATIONS = ROOT / "docs" / "operations.md"
SECONDS = 300


def commands(part: str) -> str:
    """The block of commands that has this in it. Raises ValueError unless there is one, and one only."""
    blocks = re.findall(r"^```\n(.*?)^```", OPERATIONS.read_text(), re.MULTILINE | re.DOTALL)
    [found] = [block for block in blocks if part in block]
    return str(found)


def carry_out(stack: Stack, block: str, **variables: str) -> None:
    """Runs them in the checkout, with these variables and those that all commands need."""
    environment = {**stack.environment, **variables}
    done = subprocess.run(
        ["bash", "-ec", block], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode or "ERROR" in done.stdout:
        raise AssertionError(f"{block}\n{done.stdout}\n{done.stderr}")
