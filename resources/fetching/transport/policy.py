"""What holds for all fetches of a client. Processes that fetch nothing know it without the client."""

from dataclasses import dataclass
from pathlib import Path

from ..addressing.addresses import Guard


@dataclass(frozen=True, slots=True)
class Policy:
    """`spool_directory` is where large bodies go."""

    guard: Guard
    user_agent: str
    spool_directory: Path
    allow_downgrade: bool = False
