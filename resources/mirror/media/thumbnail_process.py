"""Paints thumbnails in a process of its own: what decodes a stranger's image has no secrets, and bounded memory.

The child imports nothing of Django. `python -m resources.mirroring.serving.apart BYTES PARENT` is its side.
"""

import io
import sys
from dataclasses import asdict, dataclass
from typing import IO, Any

from PIL import AvifImagePlugin

from resources import apart
from resources.apart import Allowance, Child, Message

from ..contents import pictures
from ..contents.errors import ImageError
from ..contents.pictures import Box

FATAL, TOO_LONG = "cannot be painted: its decoder failed.", "takes too long to paint."


@dataclass(frozen=True, slots=True)
class Order:
    """A thumbnail of an image of so many bytes, which follow, and pixels at the most."""

    box: Box
    most_pixels: int
    size: int


class LostError(ImageError):
    """The child has ended over the image."""


class TooLongError(LostError):
    """Painting took longer than it may."""


class Painter:
    """A child that paints: started when there is something to paint, ended when there was nothing for a while."""

    def __init__(self, idle_seconds: float = apart.IDLE_SECONDS) -> None:
        self._child = Child("resources.mirroring.serving.apart", idle_seconds)

    def paint(self, order: Order, image: IO[bytes], allowance: Allowance) -> bytes:
        """The thumbnail's file. One at a time. Raises ImageError, and what reading the image raises.

        The child may have died of the image. Then there will be another one for the next.
        """
        said = {"box": asdict(order.box), "most_pixels": order.most_pixels}
        try:
            painted = self._child.ask(said, image, order.size, allowance)
        except apart.TooLongError as error:
            raise TooLongError(TOO_LONG) from error
        except apart.DiedError as error:
            raise LostError(FATAL) from error
        if painted.said:
            raise ImageError(painted.said["refused"])
        return painted.body

    def close(self) -> None:
        """Ends the child, if there is one."""
        self._child.close()

    @property
    def pid(self) -> int | None:
        return self._child.pid


def _paint(order: Message) -> Message:
    said: dict[str, Any] = dict(order.said)
    try:
        return Message({}, pictures.paint(io.BytesIO(order.body), Box(**said["box"]), said["most_pixels"]))
    except ImageError as error:
        return Message({"refused": str(error)})
    except MemoryError:
        return Message({"refused": "takes more memory than there is for one."})
    except Exception:  # noqa: BLE001 - the edge of a process: whatever a decoder raises is about this image
        return Message({"refused": "is broken."})


if __name__ == "__main__":
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # each takes memory, and the machine has one painter per core already
    apart.serve(int(sys.argv[1]), int(sys.argv[2]), _paint)
