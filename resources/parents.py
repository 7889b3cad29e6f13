"""Ends a process when the one that started it is gone. Needs Linux."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Has the system kill this process when the thread that started it ends, which is one of `parent`.

    Elsewhere than on Linux it only ends where that process has ended already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        sys.exit("the process that asked for this is gone")
