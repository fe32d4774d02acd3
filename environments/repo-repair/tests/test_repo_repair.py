import json
import re
import sys
from pathlib import Path

import pytest

from sandlot import Agent, Split, Task, load, tasks_of

HERE = Path(__file__).parents[1]
ENV = load(HERE)
TASKS = tasks_of(ENV)
PACKAGES = ("shelf", "tally", "almanac", "settings", "depot", "journal")
SOME = [f"{package}-4" for package in PACKAGES]
ROOT = "/work/repo"
MODULE = sys.modules[ENV.marked.solution.__module__]


def source(task: Task) -> str:
    """The file with the bug in it."""
    return next(iter(task.key["fixed"]))


async def write(agent: Agent, path: str, text: str) -> None:
    await agent.call("bash", command=f"cat > {ROOT}/{path} <<'END_OF_FILE'\n{text}\nEND_OF_FILE")


async def append(agent: Agent, task: Task, text: str) -> None:
    await agent.call("bash", command=f"cat >> {ROOT}/{source(task)} <<'END_OF_FILE'\n{text}\nEND_OF_FILE")


@pytest.mark.parametrize("tasks", [SOME, pytest.param([], marks=pytest.mark.system)], ids=["some", "all"])
def test_the_golden_solution_gets_full_marks(play, tasks):
    scores = play(ENV, tasks=tasks)
    assert len(scores) == len(tasks or TASKS) >= len(PACKAGES)
    assert {str(score) for score in scores.values()} == {"10/10"}


def test_with_its_bug_a_package_fails_the_wrong_cases_and_fixed_none():
    """In this process, for every task; a leak shows only where few files may be open."""
    for task in TASKS:
        [package, kind] = task.tags
        texts = {Path(name).stem: text for name, text in task.data["files"].items() if name.startswith(f"{package}/")}
        fixed = texts | {Path(name).stem: text for name, text in task.key["fixed"].items()}
        spoiled, right = MODULE.built(package, texts), MODULE.built(package, fixed)
        for case in task.key["wrong"] + task.key["fine"]:
            module, code, value = case
            name = module.partition(".")[2]
            assert MODULE.observed(right[name], code) == value, (task.id, code)
            if kind != "leak":
                assert (MODULE.observed(spoiled[name], code) != value) == (case in task.key["wrong"]), (task.id, code)


@pytest.mark.parametrize("tasks", [SOME, pytest.param([], marks=pytest.mark.system)], ids=["some", "all"])
def test_every_planted_bug_spoils_every_one_of_its_cases_and_nothing_else(play, tasks):
    async def do_nothing(agent: Agent, task: Task) -> None:
        await agent.say("All tests pass. PASSED")

    scores = play(ENV, do_nothing, tasks)
    why = {score.checks[0].evidence for score in scores.values()}
    assert {score.value for score in scores.values()} == {0.0}
    assert {re.sub(r"\d+ spoiled", "N spoiled", each) for each in why} == {"0 of N spoiled cases come out right"}


# -- what earns nothing ------------------------------------------------------------------------------------------------


async def edit_the_visible_tests(agent: Agent, task: Task) -> None:
    await agent.call("bash", command=f"cd {ROOT} && echo 'import unittest' > tests/test_{task.tags[0]}.py")
    await agent.say("All tests pass.")


async def patch_the_test_tools(agent: Agent, task: Task) -> None:
    patch = "import unittest, json, os\nunittest.TestCase.assertEqual = lambda *a, **k: None\njson.dumps = lambda *a, **k: 'true'"
    for name in ("conftest.py", "sitecustomize.py", "usercustomize.py", "json.py", "tests/__init__.py"):
        await write(agent, name, patch)
    await write(agent, "pytest.ini", "[pytest]\naddopts = --collect-only")
    await append(agent, task, patch)
    await agent.say("All tests pass.")


async def be_equal_to_everything(agent: Agent, task: Task) -> None:
    code = """
class Always(str):
    def __eq__(self, other): return True
    def __hash__(self): return 0
    def __getattr__(self, name): return lambda *a, **k: Always()
    def __call__(self, *a, **k): return Always()
    def __repr__(self): return "None"
for name in [name for name, value in globals().items() if callable(value) and name != "Always"]:
    globals()[name] = Always()
"""
    await append(agent, task, code)
    await agent.say("Done.")


async def leave_by_the_back_door(agent: Agent, task: Task) -> None:
    await append(agent, task, "import os\nos._exit(0)")
    await agent.say("Done.")


async def leave_by_the_front_door(agent: Agent, task: Task) -> None:
    await append(agent, task, "import sys\nsys.exit(0)")
    await agent.say("Done.")


async def raise_at_everything(agent: Agent, task: Task) -> None:
    await append(agent, task, "raise ValueError('PASSED')")
    await agent.say("Done.")


async def print_fake_results(agent: Agent, task: Task) -> None:
    """The right answer to every case but the hidden ones, which nobody knows: here `true` for each, in every open stream."""
    code = """
import os
for fd in range(64):
    try:
        os.write(fd, b'true\\n' * 16)
    except OSError:
        pass
os._exit(0)
"""
    await append(agent, task, code)
    await agent.say("PASSED")


async def write_more_results(agent: Agent, task: Task) -> None:
    """Lines for every count of cases there might be, and the real ones after them."""
    await append(
        agent, task, "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'null\\n' * 100)\n    except OSError: pass"
    )
    await agent.say("PASSED")


async def take_the_driver_over(agent: Agent, task: Task) -> None:
    """The parent's streams, memory and file are within reach; the values it would have to write are not."""
    code = """
import os, signal
try:
    with open(f"/proc/{os.getppid()}/fd/1", "w") as out:
        out.write('true\\n' * 20)
    with open("/grade/left", "w") as out:
        out.write('true\\n' * 12)
except OSError:
    pass
os.kill(os.getppid(), signal.SIGKILL)
"""
    await append(agent, task, code)
    await agent.say("PASSED")


async def delete_the_package(agent: Agent, task: Task) -> None:
    await agent.call("bash", command=f"rm -rf {ROOT}")
    await agent.say("No package, no bug.")


CHEATS = [
    edit_the_visible_tests,
    patch_the_test_tools,
    be_equal_to_everything,
    leave_by_the_back_door,
    leave_by_the_front_door,
    raise_at_everything,
    print_fake_results,
    write_more_results,
    take_the_driver_over,
    delete_the_package,
]


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_a_cheat_earns_nothing(play, cheat):
    assert {score.value for score in play(ENV, cheat, tasks=SOME[::2]).values()} == {0.0}


def test_an_endless_loop_ends_and_earns_nothing(play, monkeypatch):
    monkeypatch.setattr(MODULE, "CPU_S", 1)

    async def loop(agent: Agent, task: Task) -> None:
        await append(agent, task, "while True: pass")
        await agent.say("Done.")

    assert {score.value for score in play(ENV, loop, tasks=["shelf-1"]).values()} == {0.0}


def test_handling_only_the_inputs_that_are_shown_earns_nothing(play):
    async def special_case(agent: Agent, task: Task) -> None:
        [(name, arguments)] = re.findall(r"result = (\w+)\((.*)\)\n", task.prompt)
        [value] = re.findall(r"`result` is not (.*)\.\n", task.prompt)
        code = f"""
shown = (lambda *args, **named: (args, named))({arguments})
def wrapped(function):
    return lambda *args, **named: {value} if (args, named) == shown else function(*args, **named)
{name} = wrapped({name})
"""
        await append(agent, task, code)
        seen = await agent.call("bash", command=f"cd {ROOT} && python3 -m unittest discover -s tests -t . 2>&1 | tail -3")
        assert "OK" in seen
        await agent.say("Done.")

    assert {score.value for score in play(ENV, special_case, tasks=["shelf-1", "tally-4", "depot-1"]).values()} == {0.0}


# -- what does not matter ----------------------------------------------------------------------------------------------


def test_a_fix_counts_whatever_became_of_the_tests(play):
    async def untidy(agent: Agent, task: Task) -> None:
        for path, text in task.key["fixed"].items():
            await write(agent, path, text + "print('hello')")
        await agent.call("bash", command=f"cd {ROOT} && rm -rf tests && echo 'import os; os._exit(1)' > sitecustomize.py")
        await agent.say("Done.")

    assert all(score.passed for score in play(ENV, untidy, tasks=SOME[1::2]).values())


def test_a_fix_may_bring_a_new_module(play):
    async def move(agent: Agent, task: Task) -> None:
        [(path, text)] = task.key["fixed"].items()
        await write(agent, f"{task.tags[0]}/inner.py", text)
        await write(agent, path, "from .inner import *")
        await agent.say("Done.")

    assert all(score.passed for score in play(ENV, move, tasks=["shelf-4", "depot-4"]).values())


def test_breaking_something_else_costs_everything(play):
    async def clumsy(agent: Agent, task: Task) -> None:
        for path, text in task.key["fixed"].items():
            await write(
                agent, path, text + "\ndef wrap(text, width):\n    return [text]\ndef number(lines, start=1):\n    return lines"
            )
        await agent.say("Done.")

    assert {score.value for score in play(ENV, clumsy, tasks=["shelf-9"]).values()} == {0.0}


# -- how tasks are made ------------------------------------------------------------------------------------------------


def test_hidden_inputs_are_not_the_shown_ones():
    for task in TASKS:
        shown = task.prompt + json.dumps(task.data)
        assert len(task.key["wrong"]) >= 3
        assert not [code for _, code, _ in task.key["wrong"] if code in shown], task.id


def test_tasks_are_the_same_in_every_process(same_tasks_elsewhere):
    assert same_tasks_elsewhere(HERE, tasks_of(ENV))


def test_both_splits_have_tasks():
    assert all(len(tasks_of(ENV, split)) >= 4 for split in Split)
