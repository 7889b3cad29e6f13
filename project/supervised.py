"""`python -P project/supervised.py -c FILE`: supervisord, which a closed terminal ends as Ctrl-C does.

By itself it takes HUP for the wish to start everything again, in a terminal that is gone. Run as a
file, it imports nothing of the project, which would stay in memory for nothing.
"""

import signal
from types import FrameType

from supervisor import options, supervisord


class Receiver(options.SignalReceiver):  # type: ignore[misc]  # untyped
    """Notes signals for supervisord's loop."""

    def receive(self, number: int, frame: FrameType | None) -> None:
        super().receive(signal.SIGTERM if number == signal.SIGHUP else number, frame)


if __name__ == "__main__":
    options.SignalReceiver = Receiver
    supervisord.main()
