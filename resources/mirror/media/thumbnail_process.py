"""Paints thumbnails in a child process: the decoder of untrusted images has no secrets, and bounded memory.

The child imports nothing of Django. `python -m resources.mirror.media.thumbnail_process BYTES PARENT` is its
side.
"""

import io
import sys
from dataclasses import asdict
from typing import IO, Any

from PIL import AvifImagePlugin

from resources import sandbox
from resources.sandbox import ChildAllowance, ChildMessage, ChildProcess

from ..errors import UnreadableImageError
from . import pictures
from .pictures import ThumbnailBox

DECODER_FAILED, PAINTED_TOO_LONG = "cannot be painted: its decoder failed.", "takes too long to paint."


class PainterLostError(UnreadableImageError):
    """The image has ended the child."""


class PaintedTooLongError(PainterLostError):
    """Painting took longer than it may."""


class ThumbnailPainter:
    """A child that paints: started for the first image, ended when it was idle for a while."""

    def __init__(self, idle_seconds: float = sandbox.CHILD_IDLE_SECONDS) -> None:
        self._child = ChildProcess("resources.mirror.media.thumbnail_process", idle_seconds)

    def paint(
        self, box: ThumbnailBox, image: IO[bytes], size: int, most_pixels: int, allowance: ChildAllowance
    ) -> bytes:
        """Returns the thumbnail's file, of an image of `size` bytes and at most so many pixels. Paints one at a time.

        Raises UnreadableImageError, and the errors of reading the image.
        If the child dies of the image, the next image gets a new child.
        """
        values = {"box": asdict(box), "most_pixels": most_pixels}
        try:
            painted = self._child.ask(values, image, size, allowance)
        except sandbox.ChildTimeoutError as error:
            raise PaintedTooLongError(PAINTED_TOO_LONG) from error
        except sandbox.ChildDiedError as error:
            raise PainterLostError(DECODER_FAILED) from error
        if painted.values:
            raise UnreadableImageError(painted.values["refused"])
        return painted.body

    def close(self) -> None:
        """Ends the child, if there is one."""
        self._child.close()

    @property
    def pid(self) -> int | None:
        return self._child.pid


def _answer_order(order: ChildMessage) -> ChildMessage:
    values: dict[str, Any] = dict(order.values)
    try:
        box = ThumbnailBox(**values["box"])
        return ChildMessage({}, pictures.render_thumbnail(io.BytesIO(order.body), box, values["most_pixels"]))
    except UnreadableImageError as error:
        return ChildMessage({"refused": str(error)})
    except MemoryError:
        return ChildMessage({"refused": "takes more memory than there is for one."})
    except Exception:  # noqa: BLE001 - the edge of a process: any error of a decoder is about this image
        return ChildMessage({"refused": "is broken."})


if __name__ == "__main__":
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # each takes memory, and the machine has one painter per core already
    sandbox.serve_parent(int(sys.argv[1]), int(sys.argv[2]), _answer_order)
