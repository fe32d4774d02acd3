"""Conditions of audited code: a shifted clock, no network, seeded random generators.

Time zone, locale and hash seed are environment variables of the process. Everything here is applied before the audited code is
imported, so that the names it imports are the changed ones.
"""

from __future__ import annotations

import datetime as dt
import random
import socket
import sys
import time
from importlib.machinery import ExtensionFileLoader
from typing import Any


def apply_conditions(conditions: dict[str, Any]) -> None:
    """Set clock and network of this process."""
    if conditions.get("clock_shift_s"):
        shift_clock(conditions["clock_shift_s"])
    if not conditions.get("network", True):
        refuse_network()


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
