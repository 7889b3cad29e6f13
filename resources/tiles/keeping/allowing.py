"""What reading a file in a process of its own may take, as the settings say."""

from .. import conf
from .apart import Allowance


def allowance() -> Allowance:
    return Allowance(
        seconds=conf.compile_seconds(),
        memory_bytes=conf.compile_bytes(),
        at_once=conf.compiled_at_once(),
        uploads=conf.uploads(),
    )
