"""The event loop for load: fast, and without pauses to collect garbage."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs the coroutine to its end. Collects garbage before it, and not during it."""
    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    finally:
        gc.enable()
