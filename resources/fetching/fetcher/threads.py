"""Runs in a thread what may wait for the database, whose connections belong to threads."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from resources.threads import usable_connections

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


async def in_thread(
    call: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
) -> Result:
    """What the call returns. Raises what it raises."""

    def run() -> Result:
        with usable_connections():
            return call(*arguments, **named)

    return await asyncio.to_thread(run)
