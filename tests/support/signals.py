"""Signals in commands that tests start."""

import signal


def hear_signals():
    """Undo what nohup or a shell's & does to the tests: ignored signals are left alone."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
