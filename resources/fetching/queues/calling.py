"""Calls of the frontier's scripts, each with the numbers that they go by."""

import json
import random
from functools import lru_cache
from pathlib import Path

from retry import claims, scripts
from retry.scripts import Call

from .politeness import Politeness, rules
from .tuning import politeness

scripts.register(Path(__file__).parent / "lua", "fetch")


def call(script: str, *arguments: str | int | float) -> Call:
    """One script on Redis' clock. Runs nothing."""
    return Call("state", f"fetch.{script}", (), (_rules(), *arguments))


def _rules() -> str:
    """What every script goes by, as JSON. The time is Redis' own; a test may put a `now` (ms) in here."""
    return f'{{"luck":{random.random():.6f},{_numbers(politeness())}'


@lru_cache(maxsize=4)
def _numbers(given: Politeness) -> str:
    return json.dumps({**rules(given), "unknown_ms": claims.UNKNOWN_DURATION_MS})[1:]
