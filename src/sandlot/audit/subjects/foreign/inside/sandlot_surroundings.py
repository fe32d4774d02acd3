"""Conditions of audited code: a shifted clock, no network, seeded random generators.

Time zone, locale and hash seed are environment variables of the process. Everything here is applied before the audited code is
imported, so that the names it imports are the changed ones.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import socket
import sys
import tempfile
import time
from importlib.machinery import ExtensionFileLoader
from typing import Any


def apply_conditions(conditions: dict[str, Any]) -> None:
    """Set clock and network of this process."""
    if conditions.get("clock_shift_s"):
        shift_clock(conditions["clock_shift_s"])
    if not conditions.get("network", True):
        refuse_network()


DID: list[str] = []
"""What watched code did since the list was last emptied."""


def watch_for(word: str) -> None:
    """From now on note in `DID` what names the word: an import of a module, and Python code that uses it as a name.

    A text that holds the word does neither as long as it is data. `exec` is raised by `eval` too, and not by `ast.literal_eval`.
    """

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "import" and word in str(args[0]):
            DID.append(f"imported `{args[0]}`")
        elif event == "exec" and word in getattr(args[0], "co_names", ()):
            DID.append(f"ran Python code that uses `{word}`")

    sys.addaudithook(hook)


def take_noted(word: str) -> list[str]:
    """What was done since the last call; a temporary file of that name shows that a shell ran the text."""
    path = os.path.join(tempfile.gettempdir(), word)  # noqa: PTH118 - runs in the code's own process, which imports little
    if os.path.exists(path):  # noqa: PTH110 - as above
        os.unlink(path)  # noqa: PTH108 - as above
        DID.append(f"ran `touch {path}` in a shell")
    found = list(dict.fromkeys(DID))
    DID.clear()
    return found


def seed_generators(number: int) -> None:
    """Seed the global generators of Python, and of numpy if it is loaded."""
    random.seed(number)
    seed_numpy = getattr(sys.modules.get("numpy.random"), "seed", None)  # absent while another thread is still importing numpy
    if seed_numpy is not None:
        seed_numpy(number % 2**32)


def refuse_network() -> None:
    """Make every network access raise."""

    def refused(*_: Any, **__: Any) -> Any:
        raise PermissionError("the network is off in this trial")

    class Refusing(socket.socket):
        connect = refused
        connect_ex = refused
        sendto = refused

    socket.socket = Refusing  # type: ignore[misc]
    socket.getaddrinfo = refused
    socket.gethostbyname = refused
    socket.create_connection = refused


def shift_clock(seconds: float) -> None:
    """Shift the wall clock. Monotonic clocks are not changed."""
    plain_time, plain_ns = time.time, time.time_ns
    plain = {name: getattr(time, name) for name in ("gmtime", "localtime", "ctime", "strftime")}

    def moved() -> float:
        return plain_time() + seconds

    time.time = moved
    time.time_ns = lambda: plain_ns() + int(seconds * 1e9)
    for name in ("gmtime", "localtime", "ctime"):
        setattr(time, name, _defaulting(plain[name], moved))

    def strftime(form: str, at: Any = None) -> str:
        return plain["strftime"](form, plain["localtime"](moved()) if at is None else at)

    time.strftime = strftime
    _shift_datetime(moved)


def _defaulting(plain: Any, moved: Any) -> Any:
    def shifted(at: float | None = None) -> Any:
        return plain(moved() if at is None else at)

    return shifted


def _shift_datetime(moved: Any) -> None:
    """Replace the classes, except for compiled modules: they read the memory of the originals, and crash with others."""
    plain_datetime, plain_date = dt.datetime, dt.date

    class Same(type):
        """Instances and subclasses of the base, which is the original class, count as its own."""

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, cls.__base__ or object)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, cls.__base__ or object)

    class Datetime(plain_datetime, metaclass=Same):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return plain_datetime.fromtimestamp(moved(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return plain_datetime.fromtimestamp(moved(), dt.timezone.utc).replace(tzinfo=None)  # noqa: UP017 - older Pythons

        @classmethod
        def today(cls) -> Any:
            return plain_datetime.fromtimestamp(moved())

    class Date(plain_date, metaclass=Same):
        @classmethod
        def today(cls) -> Any:
            return plain_date.fromtimestamp(moved())

    dt.datetime, dt.date = Datetime, Date  # type: ignore[misc]
    for step in ("create_module", "exec_module"):
        plain_step = getattr(ExtensionFileLoader, step)
        setattr(ExtensionFileLoader, step, _with_classes(plain_step, (plain_datetime, plain_date)))


def _with_classes(step: Any, classes: tuple[type, type]) -> Any:
    """The same step of an import, during which the module `datetime` has these classes."""

    def loaded(*args: Any) -> Any:
        shifted = dt.datetime, dt.date
        dt.datetime, dt.date = classes  # type: ignore[misc]
        try:
            return step(*args)
        finally:
            dt.datetime, dt.date = shifted  # type: ignore[misc]

    return loaded
