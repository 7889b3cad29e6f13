"""Dataclasses for values that are made many times for each piece of work. PURE."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

Record = TypeVar("Record")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen_record(kind: type[Record]) -> type[Record]:
    """Makes the class a dataclass with slots that type checkers hold to be frozen.

    At run time it is not: a frozen dataclass sets each field by object.__setattr__(), and takes three times as long.
    """
    return dataclass(slots=True, unsafe_hash=True)(kind)
