"""The requests of Sandlot to a program of this folder, in JSON Lines over its standard streams: see `package_process.py`.

The programs run in another package's own Python, which has nothing of Sandlot: this module stands beside them. Import it before
the other package. From then on, whatever is printed goes to standard error.
"""

import asyncio
import json
import os
import sys
import threading

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
