"""How a process that serves ends where it has no loop to end it in order: in its first moments, and
in its last ones. This imports nothing that takes time."""

from __future__ import annotations

import os
import signal
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM)


def end_at_once_if_asked() -> None:
    """From now on, until a loop hears them, SIGTERM and Ctrl-C end the process with status 0:
    nothing has begun. A signal that the parent has it ignore stays ignored."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def hear_no_more() -> None:
    """To be called in the loop once all is done: a closed loop hears no signal, and another SIGTERM
    would give the process another status than 0."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(0)  # an import that catches everything must not catch this
