"""What commands share: one clear line and an exit code for an error, a part of a layer as arguments."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from ..tiles.errors import LayerError
from ..tiles.staleness import LayerPart


class SiteCommand(BaseCommand):
    """A command of this site. The system checks ran when the site started: they take longer than most commands do."""

    def create_parser(self, prog_name: str, subcommand: str, **options: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **options)
        parser.set_defaults(skip_checks=True)
        return parser


INTERRUPTED_EXIT_CODE = 130
"""The exit code of shells for a command that was ended by Ctrl-C."""


@contextmanager
def fail_clearly(after: str = "Nothing was changed.") -> Iterator[None]:
    """Turns the errors of changing a layer into a CommandError, which ends with the sentence `after`."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise CommandError(f"Stopped. {after}", returncode=INTERRUPTED_EXIT_CODE) from error
    except ValidationError as error:
        texts = (f"{name}: {' '.join(messages)}" for name, messages in error.message_dict.items())
        raise CommandError(f"{' '.join(texts)} {after}") from error
    except UnicodeEncodeError as error:
        raise CommandError(f"An argument is not UTF-8 text: {error.object!a:.80}. {after}") from error
    except DatabaseError as error:
        raise CommandError(f"The database refused the change: {error}. {after}") from error
    except (LayerError, OSError) as error:
        raise CommandError(f"{str(error).rstrip('.')}. {after}") from error


@contextmanager
def prefix_errors(name: object) -> Iterator[None]:
    """Puts the name of a file before the message of a LayerError."""
    try:
        yield
    except LayerError as error:
        raise type(error)(f"{name}: {error}") from error


_ZOOM_RANGE = re.compile(r"([0-9]{1,2})(?:-([0-9]{1,2}))?")


def parse_part(bbox: str | None, zoom: str | None) -> LayerPart | None:
    """Returns the named part, None for all of the layer. Raises LayerError."""
    return LayerPart.of(None if bbox is None else _parse_box(bbox), *_parse_zooms(zoom))


def _parse_box(bbox: str) -> list[float]:
    try:
        return [float(number) for number in bbox.split(",")]
    except ValueError as error:
        raise LayerError(f"--bbox is {bbox[:60]!r}, not four numbers: west,south,east,north.") from error


def _parse_zooms(zoom: str | None) -> tuple[int | None, int | None]:
    if zoom is None:
        return None, None
    found = _ZOOM_RANGE.fullmatch(zoom)
    if found is None:
        raise LayerError(f"--zoom is {zoom[:60]!r}, not a zoom or two with a hyphen between them, as 10-14.")
    return int(found[1]), int(found[2] or found[1])
