"""Who goes first when there are fewer cores than work: the thread that answers clients, before those that compute."""

import os
import sys
import threading

NICE = 5


def stand_back() -> None:
    """This thread, and those it will start, give way. On Linux alone is this a thread's own affair."""
    if sys.platform == "linux":
        own = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, own, min(19, os.getpriority(os.PRIO_PROCESS, own) + NICE))
