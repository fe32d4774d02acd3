"""A process that has imported what workers need, but not the subject. It forks one worker for every `take`.

Run as `python -m sandlot.audit.subjects.environment.fork_server` with a socket for standard input. Each message on it carries
three descriptors: one for the worker's notes, one for its errors, and one for its process id and exit code. There is only one
thread, so forking is safe. Every child seeds its random generators, as a new interpreter does. When the auditor ends, the fork
server and everything it started end too.
"""

import gc
import os
import random
import select
import signal
import socket
import struct
import sys
from contextlib import suppress

from sandlot.audit.subjects.environment import worker

NUMBER = struct.Struct("<i")
DESCRIPTORS = 3
CALL = b"worker, please"


def main() -> None:
    """Fork on demand until the auditor closes the socket."""
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    woken, waker = socket.socketpair()
    for each in (woken, waker):
        each.settimeout(0)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(waker.fileno())
    gc.freeze()  # the collector does not touch frozen objects, so forks share their pages
    lives: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _reap(lives)
        if control in ready:
            called, descriptors, _, _ = socket.recv_fds(control, len(CALL), DESCRIPTORS)
            if not called:
                break
            _fork(lives, descriptors, (control, woken, waker))
    for pid in lives:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    for pid in lives:
        os.waitpid(pid, 0)


def _fork(lives: dict[int, int], descriptors: list[int], own: tuple[socket.socket, ...]) -> None:
    talk, errors, life = descriptors
    pid = os.fork()
    if pid == 0:
        _work(talk, errors, life, own)
    os.close(talk)
    os.close(errors)
    lives[pid] = life


def _work(talk: int, errors: int, life: int, own: tuple[socket.socket, ...]) -> None:
    """The child: set things up as in a new interpreter, then do the worker's job."""
    try:
        os.setsid()
        _report(life, os.getpid())  # from now on it can be killed together with all it starts
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in own:
            each.detach()  # closed below, not again when it is collected
        for here, there in ((talk, 0), (talk, 1), (errors, 2)):
            os.dup2(here, there)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        random.seed()
        worker.main()
    finally:
        if sys.exc_info()[0] is not None:
            sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType] - there is one
        os._exit(1)


def _reap(lives: dict[int, int]) -> None:
    while lives:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        life = lives.pop(pid)
        _report(life, os.waitstatus_to_exitcode(status))
        os.close(life)


def _report(life: int, number: int) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        os.write(life, NUMBER.pack(number))


if __name__ == "__main__":
    main()
