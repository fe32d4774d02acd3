"""Runs the calls that hidden tests make, in a sandbox. The answer and its tests are never in the same process.

Three jobs, read from standard input as JSON; the result is printed as JSON:

- `record`: run the tests with the canonical solution and print the arguments of each call.
- `answer`: run the answer, make these calls of its function, and print what each gave.
- `replay`: run the tests; each call gives what the answer gave for it. Print whether they pass.

Only values go from one to the other: an answer cannot see what its tests expect, and decides nothing but its results.
"""

import builtins
import contextlib
import json
import os
import random
import resource
import select
import signal
import sys
import time

USER = 1000
MEMORY_BYTES = 2 * 2**30
MAX_RESULT_BYTES = 2**20
SCALARS = {
    "none": (type(None), lambda value: value),
    "bool": (bool, lambda value: value),
    "int": (int, int.__repr__),
    "float": (float, float.__repr__),
    "complex": (complex, complex.__repr__),
    "str": (str, str.__str__),
    "bytes": ((bytes, bytearray), lambda value: bytes(value).hex()),
}
"""The types of single values, and how they are written."""
READERS = {
    "none": lambda _: None,
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "str": str,
    "bytes": bytes.fromhex,
}
CONTAINERS = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class OtherArguments(BaseException):
    """The tests called the answer with other arguments than the canonical solution."""


class Opaque:
    """A result that is no plain value. It equals nothing."""

    __hash__ = None

    def __init__(self, value):
        del value

    def __eq__(self, other):
        return False


def encoded(value):
    """A plain value as JSON; `opaque` if it is not one. A subclass counts as its base, as `==` treats it."""
    for name, (kind, write) in SCALARS.items():
        if isinstance(value, kind):
            return [name, write(value)]
    if isinstance(value, dict):
        return ["dict", [[encoded(key), encoded(dict.__getitem__(value, key))] for key in dict.keys(value)]]
    for name, kind in CONTAINERS.items():
        if isinstance(value, kind):
            items = [encoded(item) for item in kind.__iter__(value)]
            return [name, sorted(items, key=json.dumps) if "set" in name else items]
    return ["opaque", None]


def decoded(data):
    """What `encoded` was given."""
    kind, value = data
    if kind == "dict":
        return {decoded(key): decoded(item) for key, item in value}
    if kind in CONTAINERS:
        return CONTAINERS[kind](decoded(item) for item in value)
    return READERS.get(kind, Opaque)(value)


def record(given):
    """The arguments of each call that the tests make of the canonical solution, which must pass them."""
    calls, space = [], {"__name__": "program"}
    exec(compile(given["program"], "program", "exec"), space)  # noqa: S102 - the rows' own code, in a sandbox
    function = space[given["entry_point"]]

    def candidate(*args, **kwargs):
        calls.append(encoded([args, kwargs]))
        return function(*args, **kwargs)

    run_tests(space, given, candidate)
    return {"calls": calls}


def replay(given):
    """Whether the tests pass with these results; else the calls they make, if those are not the ones that were answered."""
    calls, results, space, made = given["calls"], given["results"], {"__name__": "program"}, []
    exec(compile(given["program"], "program", "exec"), space)  # noqa: S102 - the rows' own code, in a sandbox

    def candidate(*args, **kwargs):
        made.append(encoded([args, kwargs]))
        place = len(made) - 1
        if place >= len(calls) or calls[place] != made[place]:
            raise OtherArguments
        if place >= len(results):
            raise RuntimeError("the answer gave no result")
        kind, data = json.loads(results[place])  # the answer's process wrote it, so it may be anything
        if kind == "raised":
            raise raised(data)
        return decoded(data)

    try:
        run_tests(space, given, candidate)
    except OtherArguments:
        return {"asks": made}
    except Exception as error:  # noqa: BLE001 - a result that makes a test fail in any way is a wrong one
        return {"passed": False, "why": f"{type(error).__name__}: {error}"[:300]}
    return {"passed": True}


def run_tests(space, given, candidate):
    space[given["entry_point"]] = candidate
    random.seed(0)
    space["check"](candidate)


def raised(name):
    kind = getattr(builtins, str(name), None)
    return kind() if isinstance(kind, type) and issubclass(kind, Exception) and kind is not AssertionError else RuntimeError(name)


def answer(given):
    """What the answer gives for each call, as far as it gets."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()
        try:
            make_calls(given, writing)
        finally:
            os._exit(0)
    os.close(writing)
    said, until = bytearray(), time.monotonic() + given["wall_s"]
    while len(said) <= MAX_RESULT_BYTES:
        ready = select.select([reading], [], [], max(until - time.monotonic(), 0))[0]
        data = os.read(reading, 2**16) if ready else b""
        if not data:
            break
        said += data
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return {"results": said.decode(errors="replace").splitlines()}


def make_calls(given, out):
    resource.setrlimit(resource.RLIMIT_CPU, (given["cpu_s"], given["cpu_s"]))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.chdir("/tmp")
    with contextlib.suppress(OSError):  # a sandbox of an ordinary user has no other users
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
    space = {"__name__": "program"}
    exec(compile(given["program"], "program", "exec"), space)  # noqa: S102 - this is what the sandbox is for
    for call in given["calls"]:
        args, kwargs = decoded(call)
        try:
            result = ["value", encoded(space[given["entry_point"]](*args, **kwargs))]
        except Exception as error:  # noqa: BLE001 - the tests decide what an exception means
            result = ["raised", type(error).__name__]
        line = json.dumps(result).encode() + b"\n"
        while line:
            line = line[os.write(out, line) :]


def main():
    given = json.load(sys.stdin)
    print(json.dumps({"record": record, "answer": answer, "replay": replay}[given["job"]](given)))


if __name__ == "__main__":
    main()
