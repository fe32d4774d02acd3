"""Hostile input through the real road: harness, store, command line. Everything comes back as a class or one sentence."""

import gc
import json
import os
import re
import subprocess
import tracemalloc
from pathlib import Path

import anyio
import pytest

from drive.command_line import NOTES, refused
from fakes.endpoint import FakeEndpoint, Request, completion, says
from sandlot import Run, load
from sandlot.cli.main import main
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Failed, Scored
from sandlot.env import taskset
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.run.config import RunConfig, Selection
from sandlot.run.run import run_config
from sandlot.wiring.config import ModelConfig

ESCAPE = "\x1b]0;owned\x07\x1b[31m\x9b2J\r\b\u202e"


def raw_calls(*wanted: tuple[str, object]):
    """Tool calls whose arguments go over the wire exactly as given."""
    listed = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": given}}
        for n, (name, given) in enumerate(wanted)
    ]
    return completion({"content": None, "tool_calls": listed}, "tool_calls")


def deep(levels: int) -> str:
    return '{"text": ' + "[" * levels + "]" * levels + "}"


HOSTILE = {
    "a megabyte of arguments": [("write_note", json.dumps({"text": "x" * 2**20}))],
    "a thousand levels": [("write_note", deep(1000))],
    "a hundred thousand levels": [("write_note", deep(100_000))],
    "a lone surrogate": [("write_note", '{"text": "\\ud800 \\udfff"}')],
    "not a number": [("write_note", '{"text": NaN}')],
    "infinity": [("write_note", '{"text": 1e999}')],
    "a huge integer": [("write_note", '{"text": ' + "9" * 5000 + "}")],
    "wrong types": [("write_note", '{"text": {"a": [1, null]}}')],
    "a list for an object": [("write_note", "[1, 2]")],
    "an object, not text": [("write_note", {"text": "fine"})],
    "doubled keys": [("write_note", '{"text": "a", "text": "b"}')],
    "unknown arguments": [("write_note", '{"text": "a", "mode": "w"}')],
    "nothing": [("write_note", "")],
    "a null byte": [("write_note", '{"text": "a\\u0000b"}')],
    "five thousand calls": [("look", '{"path": "/"}')] * 5000,
    "a megabyte of name": [("n" * 2**20, "{}")],
    "no name": [("", "{}")],
    "terminal escapes": [(f"write{ESCAPE}", json.dumps({"text": ESCAPE})), ("write_note", json.dumps({"text": ESCAPE}))],
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_call_is_answered_stored_and_graded(sandlot, tmp_path, name):
    def agent(request: Request):
        if any(message["role"] == "tool" for message in request.body["messages"]):
            return says(f"done {ESCAPE}")
        return raw_calls(*HOSTILE[name])

    async with FakeEndpoint(then=agent, keep=True) as endpoint:
        model = ModelConfig(spec=f"openai:m@{endpoint.url}", patience_s=1.0)
        config = RunConfig(env=str(NOTES), model=model, select=Selection(tasks=("note-0",)))
        run = await run_config(config, place=tmp_path / "run")
    trace = run.trace("note-0")
    assert isinstance(trace.outcome, Scored), trace.outcome
    assert trace.end == "done"
    assert len(endpoint.requests) == 2
    results = [part for node in trace.nodes for part in node.message.results]
    assert len(results) == len(HOSTILE[name])
    assert sum(len(result.text) for result in results) < 2**20
    shown = sandlot("show", "run/note-0/0", cwd=tmp_path)
    assert shown.code == 0, shown.err
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown.out), "a control character reached the terminal"
    assert sandlot("regrade", "run", cwd=tmp_path).code == 0


async def test_escapes_in_failures_and_summaries_reach_no_terminal(sandlot, tmp_path):
    source = NOTES.read_text().replace('return f"{len(text)} characters"', f"raise ValueError({ESCAPE!r})")
    (tmp_path / "rude.py").write_text(source)
    ran = sandlot("run", "rude.py", "--model", "scripted:golden", "--run", "run", cwd=tmp_path)
    assert ran.code == 1
    again = sandlot("replay", "run/note-0/0", cwd=tmp_path)
    for said in (ran, sandlot("show", "run", cwd=tmp_path), sandlot("show", "run/note-0/0", cwd=tmp_path), again):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", said.out + said.err), said


# -- environments ------------------------------------------------------------------------------------------------------


def changed(tmp_path: Path, old: str, new: str) -> Path:
    source = NOTES.read_text()
    assert old in source
    path = tmp_path / "changed.py"
    path.write_text("import os, sys, subprocess\n" + source.replace(old, new, 1))
    return path


CHECK = 'return evidence.state["writes"] == 1'
SETUP = 'world.state["writes"] = 0'
TOOL = 'return f"{len(text)} characters"'


@pytest.mark.parametrize(
    ("old", "new", "side"),
    [
        (CHECK, "sys.exit(0)", "grader"),
        (CHECK, "raise RecursionError", "grader"),
        (CHECK, 'return float("nan")', "grader"),
        (CHECK, "return 'yes'", "grader"),
        (CHECK, "raise KeyboardInterrupt", "grader"),
        (SETUP, "sys.exit(3)", "environment"),
        (SETUP, "raise BaseExceptionGroup('x', [ValueError('y')])", "environment"),
        (SETUP, "world.state['x'] = object()", "environment"),
    ],
)
async def test_author_code_that_misbehaves_is_blamed_and_never_rewarded(tmp_path, old, new, side):
    path = changed(tmp_path, old, new)
    config = RunConfig(env=str(path), model=ModelConfig(spec="scripted:golden"), select=Selection(tasks=("note-0",)))
    run = await run_config(config, runs=tmp_path)
    (trace,) = run
    assert isinstance(trace.outcome, Failed), trace.outcome
    assert (trace.outcome.side, trace.reward) == (side, None)


@pytest.mark.parametrize("new", ["sys.exit(1)", "return object()", "raise StopIteration", "raise StopAsyncIteration"])
@pytest.mark.parametrize("on_crash", ["grade", "fail"])
async def test_a_tool_that_misbehaves_is_answered_with_an_error_or_fails_the_rollout_as_declared(tmp_path, new, on_crash):
    path = changed(tmp_path, TOOL, new)
    path.write_text(path.read_text().replace('Environment("notes",', f'Environment("notes", on_crash={on_crash!r},', 1))
    assert "on_crash" in path.read_text()
    config = RunConfig(env=str(path), model=ModelConfig(spec="scripted:golden"), select=Selection(tasks=("note-0",)))
    (trace,) = await run_config(config, runs=tmp_path)
    crashed = [event for event in trace.events if event.kind == "tool_crashed"]
    if on_crash == "grade":
        assert isinstance(trace.outcome, Scored), trace.outcome
        assert [event.detail["tool"] for event in crashed] == ["write_note"]
    else:
        assert isinstance(trace.outcome, Failed), trace.outcome
        assert (trace.outcome.side, trace.reward) == ("environment", None)


def test_a_setup_that_forks_does_not_double_the_run(sandlot, tmp_path):
    changed(tmp_path, SETUP, f"{SETUP}\n    os.fork() or os._exit(0)\n    subprocess.run(['true'])")
    ran = sandlot("run", "changed.py", "--model", "scripted:golden", "--json", cwd=tmp_path)
    assert (ran.code, ran.json["scored"]) == (0, 8)


def test_author_code_that_prints_does_not_spoil_the_result(sandlot, tmp_path):
    changed(tmp_path, TOOL, f"print('noise'); os.write(1, b'noise'); subprocess.run(['echo', 'noise']); {TOOL}")
    source = (tmp_path / "changed.py").read_text()
    (tmp_path / "changed.py").write_text("print('noise')\n" + source.replace(CHECK, f"print('noise'); {CHECK}"))
    ran = sandlot("run", "changed.py", "--model", "scripted:golden", "--run", "run", "--json", cwd=tmp_path)
    assert ran.json["scored"] == 8
    assert "noise" in ran.err
    for words in (
        ("show", "changed.py"),
        ("regrade", "run"),
        ("replay", "run/note-0/0"),
        ("run", "changed.py", "-m", "scripted:noop", "--dry-run"),
    ):
        assert sandlot(*words, "--json", cwd=tmp_path).json is not None


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import nothing_of_that_name", "hostile.py:1: ModuleNotFoundError"),
        ("def (:", "hostile.py:1: SyntaxError"),
        ("import sys; sys.exit(0)", "hostile.py:1: SystemExit"),
        ("1 / 0", "hostile.py:1: ZeroDivisionError"),
        ("x = 1", "a file holds one `Environment`; this one has none"),
        ("from sandlot import Environment\nenv = Environment('e')", "no tasks"),
        ("\x00", "hostile.py"),
    ],
)
def test_a_file_that_is_no_environment_is_one_sentence(sandlot, tmp_path, source, complaint):
    (tmp_path / "hostile.py").write_text(source)
    assert complaint in refused(sandlot("run", "hostile.py", "--model", "scripted:noop", cwd=tmp_path))


def test_tasks_without_end_are_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(taskset, "MAX_TASKS", 1000)
    path = changed(tmp_path, "for number in range(8):", "for number in __import__('itertools').count():")
    with pytest.raises(ConfigError, match="more than 1,000 tasks"):
        taskset.tasks_of(load(path))


@pytest.mark.parametrize("wrong", ["sys.exit(0)", "raise ValueError", "yield 7", "yield Task('../x')", "yield from ()"])
def test_tasks_that_break_are_one_sentence(sandlot, tmp_path, wrong):
    changed(tmp_path, "for number in range(8):", f"{wrong}\n    for number in range(0):")
    refused(sandlot("run", "changed.py", "--model", "scripted:noop", cwd=tmp_path))


def folder_environment(folder: Path) -> Path:
    (folder / "rubrics").mkdir(parents=True)
    (folder / "environment.toml").write_text('name = "odd"')
    (folder / "tasks.py").write_text("from sandlot import Task\ndef tasks(rng):\n    yield Task('a', prompt='x')\n")
    rubric = {"checks": [{"kind": "python", "id": "a", "ref": "sandlot:file_exists", "args": {"path": "/a"}}]}
    (folder / "rubrics" / "default.json").write_text(json.dumps(rubric))
    return folder


def test_links_in_circles_and_pipes_in_the_folder_do_no_harm(sandlot, tmp_path):
    folder = folder_environment(tmp_path / "odd")
    (folder / "circle").symlink_to(folder)
    (folder / "itself").symlink_to("itself")
    (folder / "gone").symlink_to("/nowhere/at/all")
    os.mkfifo(folder / "pipe")
    ran = sandlot("run", "odd", "--model", "scripted:noop", "--json", cwd=tmp_path)
    assert (ran.code, ran.json["scored"]) == (0, 1), ran


def test_a_huge_file_is_fingerprinted_without_being_held(tmp_path):
    folder = folder_environment(tmp_path / "odd")
    (folder / "data").mkdir()
    with (folder / "data" / "huge.bin").open("wb") as file:
        file.truncate(200 * 2**20)
    env = load(folder)
    tracemalloc.start()
    environment_fingerprint(env)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 2**20


def test_a_folder_that_may_not_be_read_is_one_sentence(tmp_path, monkeypatch, capsys):
    folder = folder_environment(tmp_path / "odd")
    monkeypatch.setattr("sys.argv", ["sandlot", "show", str(folder)])
    with pytest.raises(SystemExit, match="0"):
        main()  # imports what it needs, as long as it may
    folder.chmod(0)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)  # root may read anything
    try:
        with pytest.raises(SystemExit, match="2"):
            main()
    finally:
        os.seteuid(me)
        folder.chmod(0o700)
    assert "Permission denied" in capsys.readouterr().err


# -- run directories ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(sandlot, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert sandlot("run", NOTES, "--model", "scripted:golden", "--run", "run", cwd=folder).code == 0
    return folder / "run"


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garbled(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3 : len(data) // 2] = os.urandom(len(data) // 2 - len(data) // 3)
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [cut_short, garbled, Path.unlink])
@pytest.mark.parametrize("what", ["manifest.json", "sittings.jsonl", "segments/*.parquet", "blobs/**/*"])
def test_a_damaged_run_is_told_in_a_sentence_and_never_read_wrongly(sandlot, tmp_path, whole, harm, what):
    subprocess.run(["cp", "-r", whole, tmp_path / "run"], check=True)
    (harmed, *_) = [path for path in sorted((tmp_path / "run").glob(what)) if path.is_file()]
    harm(harmed)
    for words in (("show", "run"), ("show", "run", "--json"), ("show", "run", "--traces"), ("regrade", "run", "--json")):
        said = sandlot(*words, cwd=tmp_path)
        assert "Traceback" not in said.err, said.err
        assert said.code in {0, 1, 2}
        if said.code == 2:
            assert said.err.startswith("sandlot: ")
    if said.code != 2:  # what was regraded is what was scored, or is a failure: never another score
        for item in said.json["changed"]:
            assert item["now"]["is"] == "failed"


# -- the loop ----------------------------------------------------------------------------------------------------------


def test_a_blocking_async_tool_is_named_in_the_summary(sandlot, tmp_path):
    changed(tmp_path, TOOL, f"import time; time.sleep(1.2); {TOOL}")
    ran = sandlot("run", "changed.py", "--model", "scripted:golden", "--task", "note-0", "--run", "run", cwd=tmp_path)
    assert ran.code == 0
    assert re.search(r"`changed\.write_note .* blocked all other rollouts", ran.out), ran.out
    assert "write_note" in Run(tmp_path / "run").sittings[-1].blocked_by[0]


@pytest.mark.timeout(300)
async def test_five_hundred_rollouts_at_once_leave_nothing_behind(tmp_path):
    before = {task.id for task in anyio.get_running_tasks()}
    async with FakeEndpoint(then=says("ok"), latency_s=2.0, keep=False) as endpoint:
        config = RunConfig(
            env=str(NOTES),
            model=ModelConfig(spec=f"openai:m@{endpoint.url}", connections=512),
            select=Selection(rollouts=500),
            at_once=500,
        )
        run = await run_config(config, place=tmp_path / "run")
        assert endpoint.most_at_once > 100  # fewer than 500 on a busy machine: the first have ended when the last begin
    assert (run.verdict, run.summary().scored) == ("complete", 500)
    gc.collect()  # an unclosed connection warns here, and a warning is an error
    assert {task.id for task in anyio.get_running_tasks()} <= before
