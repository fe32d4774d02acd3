"""The program inside that has the screen and the keyboard, on an X server that only notes what it is told."""

import io
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sandlot.apps import desktop

SOURCE = Path(desktop.__file__).parent / "inside" / "screen.py"


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the program defines; it has read an empty input."""
    xlib: Any = ModuleType("Xlib")
    xlib.XK = SimpleNamespace(load_keysym_group=lambda _group: None)
    xlib.X = xlib.display = xlib.protocol = SimpleNamespace()
    xlib.error = SimpleNamespace(XError=type("XError", (Exception,), {}))
    monkeypatch.setitem(sys.modules, "Xlib", xlib)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    found: dict[str, Any] = {"__name__": "inside"}
    exec(compile(SOURCE.read_text(encoding="utf-8"), str(SOURCE), "exec"), found)
    return found


def keyboard(inside: dict[str, Any], monkeypatch: pytest.MonkeyPatch, spare: int) -> Any:
    """A screen whose keyboard has the letter a and some free keys."""
    monkeypatch.setattr(inside["time"], "sleep", lambda _seconds: None)
    server = inside["_Server"].__new__(inside["_Server"])
    server.codes, server.spare = {ord("a"): (10, 0)}, list(range(100, 100 + spare))
    server.display = SimpleNamespace(change_keyboard_mapping=lambda _code, _signs: None, sync=lambda: None)
    server.settle = lambda _most_s: True
    return server


def test_a_sign_that_the_text_needs_is_not_given_up_for_another(inside: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    server = keyboard(inside, monkeypatch, spare=3)
    server.teach([1, 2, 3])
    server.teach([ord("a"), 4, 1, 5])
    assert {ord("a"), 1, 4, 5} <= server.codes.keys()
    assert len({server.codes[symbol] for symbol in (1, 4, 5)}) == 3
    assert sorted(server.spare) == [100, 101, 102]


def test_more_new_signs_than_free_keys_are_refused_with_their_number(inside: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    server = keyboard(inside, monkeypatch, spare=3)
    server.teach([1, 2, 3])
    with pytest.raises(inside["_Refused"], match="has 4 different"):
        server.teach([1, 4, 5, 6])
    assert {1, 2, 3} <= server.codes.keys()


def test_a_key_that_is_pressed_often_is_taught_once(inside: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    server = keyboard(inside, monkeypatch, spare=2)
    server.teach([7] * 50)
    assert server.codes[7] == (100, 0)


def test_a_request_that_breaks_is_answered_and_the_next_one_too(
    inside: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    requests = [{"id": 1, "do": "open", "argv": ["a\0b"]}, {"id": 2, "do": "no such thing"}, {"id": 3}]
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(json.dumps(request) + "\n" for request in requests)))
    inside["main"]()
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    assert all(answer["error"].startswith("it cannot be done") for answer in answers)
