"""How a command fails: one clear line and an exit code, whatever went wrong. No traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import Error as DatabaseError

from resources.tiles.errors import LayerError

INTERRUPTED = 130
"""What shells answer for a command that was ended by Ctrl-C."""


@contextmanager
def failing_clearly(after: str = "Nothing was changed.") -> Iterator[None]:
    """Turns what may go wrong while a layer is changed into a CommandError that says what is left."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise CommandError(f"Stopped. {after}", returncode=INTERRUPTED) from error
    except ValidationError as error:
        raise CommandError(f"{' '.join(_sentences(error))} {after}") from error
    except UnicodeEncodeError as error:
        raise CommandError(f"An argument holds what is not text in UTF-8: {error.object!a:.80}. {after}") from error
    except DatabaseError as error:
        raise CommandError(f"The database did not take it: {error}. {after}") from error
    except (LayerError, OSError) as error:
        raise CommandError(f"{str(error).rstrip('.')}. {after}") from error


@contextmanager
def about(name: object) -> Iterator[None]:
    """Puts the name of a file before what is wrong with it."""
    try:
        yield
    except LayerError as error:
        raise type(error)(f"{name}: {error}") from error


def _sentences(error: ValidationError) -> list[str]:
    return [f"{name}: {' '.join(messages)}" for name, messages in error.message_dict.items()]
