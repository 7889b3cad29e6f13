"""The code of the documentation: its blocks, and commands of docs/operations.md carried out as they stand there."""

import re
import subprocess

from .stack import ROOT, Stack

OPERATIONS = "docs/operations.md"
SECONDS = 300


def commands(part: str) -> str:
    """The block of commands that has this in it. Raises ValueError unless there is one, and one only."""
    return code_block(OPERATIONS, "", part)


def carry_out(stack: Stack, block: str, **variables: str) -> str:
    """Runs them in the checkout, with these variables and those that all commands need. Returns their output."""
    environment = {**stack.environment, **variables}
    done = subprocess.run(
        ["bash", "-ec", block], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode or "ERROR" in done.stdout:
        raise AssertionError(f"{block}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def code_blocks(page: str) -> list[tuple[str, str]]:
    """The blocks of code of a page, as `docs/api.md`: language (perhaps empty) and text."""
    return re.findall(r"^```(\w*)\n(.*?)\n```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def code_block(page: str, language: str, part: str) -> str:
    """The page's block in that language that has this in it. Raises ValueError unless there is one, and one only."""
    [found] = [text for kind, text in code_blocks(page) if kind == language and part in text]
    return found
