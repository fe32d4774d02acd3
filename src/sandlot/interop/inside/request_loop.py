"""The requests of Sandlot to a program of this folder, in JSON Lines over its standard streams: see `package_process.py`.

The programs run in another package's own Python, which has nothing of Sandlot: this module stands beside them. Import it before
the other package. From then on, whatever is printed goes to standard error.

On Linux, the first process only keeps the program: it is the parent of all that the program starts and leaves behind, in whatever
session, and ends it when the program ends or when it is told to by SIGTERM.
"""

import asyncio
import ctypes
import json
import os
import signal
import sys
import threading

PR_SET_CHILD_SUBREAPER = 36


def keep_program():
    """Return in a new process, which is the program; stay behind to end what it leaves."""
    if not sys.platform.startswith("linux") or ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    program = os.fork()
    if program:
        signal.signal(signal.SIGTERM, lambda *_: os.kill(program, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    if not program:
        return
    os.close(0)
    os.close(1)
    while os.wait()[0] != program:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_children()
    os._exit(0)


def end_children():
    """Kill all children and, as they become ours when their parents die, all that they have started."""
    while True:
        for child in children():
            try:
                os.kill(child, signal.SIGKILL)
            except OSError:  # it has changed its user
                continue
        try:
            os.wait()
        except ChildProcessError:
            return


def children():
    """The processes whose parent we are."""
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                if name.isdigit() and int(stat.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    yield int(name)
        except (OSError, ValueError, IndexError):  # it has just ended, or is no process
            continue


keep_program()
OUT = os.dup(1)
os.dup2(2, 1)  # what the other package prints is no answer


def answer_line(number, result):
    """The line with a result, or with the exception that there was instead."""
    reply = {"failed": f"{type(result).__name__}: {result}"} if isinstance(result, Exception) else {"result": result}
    try:
        return json.dumps({"id": number, **reply}, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        return json.dumps({"id": number, "failed": f"its answer has no JSON form: {error}"}).encode() + b"\n"


def write(descriptor, data):
    """Write all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


async def answer(service, request):
    """Answer one request with the method of the service that has its name."""
    number, do = request.pop("id"), request.pop("do")
    try:
        result = await getattr(service, do)(**request)
    except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises is the answer
        result = error
    write(OUT, answer_line(number, result))


async def answer_requests(service):
    """Answer requests, many at a time, until standard input ends."""
    loop, lines = asyncio.get_running_loop(), asyncio.Queue()

    def read():
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        getattr(service, "leave", int)()
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    running = set()
    while True:
        task = loop.create_task(answer(service, json.loads(await lines.get())))
        running.add(task)
        task.add_done_callback(running.discard)
