"""Environments of `verifiers`, played by its own loop and by ours against the same endpoint: `make test-interop KIND=verifiers`.

`VERIFIERS_PYTHON` names the Python that has the package. Environments of its repository are used if
`SANDLOT_VERIFIERS_ENVIRONMENTS` names a folder with them: they are not on PyPI.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import anyio
import anyio.to_thread
import pytest

from drive.command_line import ENVIRONMENTS, NOTES
from fakes.endpoint import FakeEndpoint, calls, says
from sandlot import Run
from sandlot.core.errors import ConfigError
from sandlot.env.importing import import_environment, imported_folder
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.interop.exporting import export_environment
from sandlot.run.config import RunConfig, Selection
from sandlot.run.run import run_config
from sandlot.wiring.config import ModelConfig

PYTHON = os.environ["VERIFIERS_PYTHON"]
HERE = Path(__file__).parent
SAMPLES = HERE / "verifiers_samples"
THEIRS = Path(os.environ.get("SANDLOT_VERIFIERS_ENVIRONMENTS") or "/nowhere")
needs_theirs = pytest.mark.skipif(not THEIRS.is_dir(), reason="SANDLOT_VERIFIERS_ENVIRONMENTS names no folder")
WORDS = ["sphinx", "of", "black", "quartz", "judge", "my", "vow", "and", "quickly", "pack", "the", "box"]


def source(place: Path, **arguments) -> str:
    return f"{place}?{urlencode({'python': PYTHON} | arguments)}"


async def imported(place: Path, folder: Path, limit=None, **arguments):
    report = await anyio.to_thread.run_sync(
        partial(import_environment, "verifiers", source(place, **arguments), folder, limit=limit)
    )
    return report, tasks_of(load(folder))


async def our_rewards(folder: Path, endpoint: FakeEndpoint, runs: Path) -> list:
    config = RunConfig(env=str(folder), model=ModelConfig(spec=f"openai:m@{endpoint.url}"), at_once=8)
    run = await run_config(config, place=runs)
    return [run.trace(task.id) for task in tasks_of(load(folder))]


async def their_rewards(place: Path, folder: Path, endpoint: FakeEndpoint, arguments: dict, cwd=None) -> list:
    command = [PYTHON, str(HERE / "verifiers_rewards.py"), str(place if place.is_dir() else place.parent), place.stem]
    rows = next((str(file) for file in (folder / "data" / "rows.jsonl", folder / "rows.jsonl") if file.is_file()), "-")
    done = await anyio.run_process(
        [*command, json.dumps(arguments), rows, endpoint.url],
        cwd=cwd,
        stderr=subprocess.PIPE,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    return json.loads(done.stdout.decode().splitlines()[-1])


def first_user(request) -> str:
    return next(message["content"] for message in request.body["messages"] if message["role"] == "user")


def answers_in(request) -> list:
    return [message for message in request.body["messages"] if message["role"] == "assistant"]


def same(theirs: list, ours: list, high: float) -> None:
    for their, our in zip(theirs, ours, strict=True):
        assert our.reward == pytest.approx(their["reward"] / high), (their, our.outcome)


async def test_single_turn_rewards_are_equal_and_its_zero_for_a_raising_scorer_is_a_failure_here(tmp_path):
    place = SAMPLES / "sums_in_tags.py"
    report, tasks = await imported(place, tmp_path / "env")
    assert [task.split for task in tasks] == ["train"] * 4 + ["heldout"] * 2
    assert not report.left_out
    forms = ["<think>x</think><answer>{}</answer>", "{}", "<answer>{}</answer>", "<answer>7</answer>"]

    def react(request):
        number = int(re.search(r"\d+", first_user(request))[0])
        return says("<answer>boom</answer>" if number == 5 else forms[number % 4].format(2 * number))

    async with FakeEndpoint(then=react) as endpoint:
        ours = await our_rewards(tmp_path / "env", endpoint, tmp_path / "run")
        theirs = await their_rewards(place, tmp_path / "env", endpoint, {})
    same(theirs[:5], ours[:5], 1.25)
    assert len({each["reward"] for each in theirs[:5]}) >= 3
    assert theirs[5]["metrics"]["right"] == 0.0
    assert (ours[5].reward, ours[5].outcome.side) == (None, "grader")
    assert "the scorer cannot read this" in ours[5].outcome.message


@pytest.mark.parametrize(
    ("model", "score"), [("scripted:golden", 1.0), ("scripted:noop", 0.04)]
)  # their format reward is 0.2 without tags
async def test_golden_answers_are_found_and_get_full_marks(tmp_path, model, score):
    await imported(SAMPLES / "sums_in_tags.py", tmp_path / "env")
    run = await run_config(RunConfig(env=str(tmp_path / "env"), model=ModelConfig(spec=model)), place=tmp_path / "run")
    assert run.summary().score.value == pytest.approx(score)


async def test_calls_of_one_turn_reach_the_environment_together_and_its_errors_are_results(tmp_path):
    place = SAMPLES / "shop_tools.py"
    await imported(place, tmp_path / "env")

    def react(request):
        results = [message["content"] for message in request.body["messages"] if message["role"] == "tool"]
        wanted = ["tea", "milk"] if "tea" in first_user(request) else ["cake", "bread"]
        if not results:
            return calls(*(("price", json.dumps({"item": item})) for item in wanted))
        return says(str(sum(int(each) for each in results if each.isdecimal())))

    async with FakeEndpoint(then=react) as endpoint:
        ours = await our_rewards(tmp_path / "env", endpoint, tmp_path / "run")
        theirs = await their_rewards(place, tmp_path / "env", endpoint, {})
    assert [each["reward"] for each in theirs] == [1.0, 0.5]
    same(theirs, ours, 1.0)
    results = [result.text for node in ours[1].nodes for result in node.message.results]
    assert results == ["'cake'", "4"]


async def test_an_error_that_ends_their_rollout_has_no_reward_here(tmp_path):
    place = SAMPLES / "shop_tools.py"
    await imported(place, tmp_path / "env", limit=1)
    async with FakeEndpoint(then=lambda _: calls(("price", '{"item": "fire"}'))) as endpoint:
        ours = await our_rewards(tmp_path / "env", endpoint, tmp_path / "run")
        theirs = await their_rewards(place, tmp_path / "env", endpoint, {})
    assert (theirs[0]["reward"], theirs[0]["error"]) == (0.0, True)
    assert ours[0].reward is None
    assert "the shop burns" in ours[0].outcome.message


async def test_replies_of_a_multi_turn_environment_and_its_last_words(tmp_path):
    place = SAMPLES / "guess_number.py"
    await imported(place, tmp_path / "env")

    def react(request):
        low, high = 0, 9
        for said, reply in zip(answers_in(request), request.body["messages"][2::2], strict=False):
            low, high = (int(said["content"]) + 1, high) if reply["content"] == "Higher." else (low, int(said["content"]) - 1)
        return says(str((low + high) // 2))

    async with FakeEndpoint(then=react) as endpoint:
        ours = await our_rewards(tmp_path / "env", endpoint, tmp_path / "run")
        theirs = await their_rewards(place, tmp_path / "env", endpoint, {})
        assert len({each["reward"] for each in theirs}) == 2
        same(theirs, ours, 1.0)
        endpoint.then = says("banana")
        ours = await our_rewards(tmp_path / "env", endpoint, tmp_path / "run2")
        theirs = await their_rewards(place, tmp_path / "env", endpoint, {})
        assert [each["reward"] for each in theirs] == [0.0] * 3
        same(theirs, ours, 1.0)
        endpoint.then = says("crash")
        ours = await our_rewards(tmp_path / "env", endpoint, tmp_path / "run3")
    assert [each.reward for each in ours] == [None] * 3


async def test_reasoning_gym_inside_verifiers_scores_alike(tmp_path):
    (tmp_path / "rg_env.py").write_text(
        "import verifiers as vf\n\n\n"
        "def load_environment(gym='leg_counting'):\n"
        "    return vf.ReasoningGymEnv(gym, num_train_examples=6, num_eval_examples=2, seed=3)\n"
    )
    _, tasks = await imported(tmp_path / "rg_env.py", tmp_path / "env")
    assert len(tasks) == 8

    def react(request):
        numbers = [int(each) for each in re.findall(r"\d+", first_user(request))]
        return says(f"<answer>{sum(numbers) * 2}</answer>")

    async with FakeEndpoint(then=react) as endpoint:
        ours = await our_rewards(tmp_path / "env", endpoint, tmp_path / "run")
        same(await their_rewards(tmp_path / "rg_env.py", tmp_path / "env", endpoint, {}), ours, 1.0)


# -- environments of the package's own repository ----------------------------------------------------------------------


@needs_theirs
async def test_their_tool_test(tmp_path):
    place, arguments = THEIRS / "tool_test", {"num_train_examples": 20, "num_eval_examples": 5}
    report, tasks = await imported(place, tmp_path / "env", **arguments)
    assert (len(tasks), report.left_out) == (25, ())
    given = {"tool_A": '{"x": 1}', "tool_B": '{"x": "a"}', "tool_C": '{"x": 0.5}', "tool_D": '{"x": true}'}

    def all_tools(request):
        return calls(*((name, given[name]) for name in re.findall(r"tool_[A-D]", first_user(request))))

    async with FakeEndpoint(then=all_tools) as endpoint:
        for react, value in ((all_tools, 1.0), (says("No."), 0.0), (calls(("tool_A", '{"x": 1}')), None)):
            endpoint.then = react
            ours = await our_rewards(tmp_path / "env", endpoint, tmp_path / f"run{value}")
            theirs = await their_rewards(place, tmp_path / "env", endpoint, arguments)
            same(theirs, ours, 1.0)
            assert value is None or {each["reward"] for each in theirs} == {value}


@needs_theirs
async def test_their_reverse_text_on_texts_of_a_folder(tmp_path):
    (tmp_path / "texts").mkdir()
    rows = [{"prompt": " ".join(WORDS[start : start + 4])} for start in range(len(WORDS) - 3)]
    (tmp_path / "texts" / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    place, arguments = THEIRS / "reverse_text", {"dataset_name": str(tmp_path / "texts")}
    _, tasks = await imported(place, tmp_path / "env", **arguments)
    assert len(tasks) == len(rows)
    assert all("golden" in task.key for task in tasks)

    def react(request):
        text = first_user(request)
        return says(f"<reversed_text>{text[::-1] if len(text) % 2 else text}</reversed_text>")

    async with FakeEndpoint(then=react) as endpoint:
        ours = await our_rewards(tmp_path / "env", endpoint, tmp_path / "run")
        theirs = await their_rewards(place, tmp_path / "env", endpoint, arguments)
    same(theirs, ours, 1.0)
    assert {each["reward"] == 1.0 for each in theirs} == {True, False}
    run = await run_config(RunConfig(env=str(tmp_path / "env"), model=ModelConfig(spec="scripted:golden")), place=tmp_path / "g")
    assert run.summary().score.value == 1.0


@needs_theirs
async def test_their_sentence_repeater_stores_what_it_draws_at_random(tmp_path):
    data = tmp_path / "cwd" / "agentlans" / "wikipedia-paragraphs"
    data.mkdir(parents=True)
    rows = [{"text": ". ".join(f"Sentence {k} of {i} says {WORDS[(i + k) % 12]}" for k in range(6))} for i in range(4)]
    (data / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    place = THEIRS / "sentence_repeater"
    _, tasks = await imported(place, tmp_path / "env", cwd=str(tmp_path / "cwd"))
    assert len(tasks) == 4

    def react(request):
        *_, last = [message["content"] for message in request.body["messages"] if message["role"] == "user"]
        which = ["first", "second", "third", "fourth", "fifth"].index(re.findall("first|second|third|fourth|fifth", last)[-1])
        return says(first_user(request).split('"')[1].split(". ")[which])

    async with FakeEndpoint(then=react) as endpoint:
        ours = await our_rewards(tmp_path / "env", endpoint, tmp_path / "run")
        theirs = await their_rewards(place, tmp_path / "env", endpoint, {}, cwd=tmp_path / "cwd")
    same(theirs, ours, 1.0)
    assert all(0.4 < each["reward"] < 1.0 for each in theirs)


# -- our environments, exported -----------------------------------------------------------------------------------------


def golden_reaction(traces) -> Callable:
    """A model that says what the golden solutions said, by the first message of the user and the number of its turn."""
    said = {}
    for trace in traces:
        opening = next(node.message.text for node in trace.nodes if node.message.role == "user")
        turns = [node.message for node in trace.nodes if node.message.role == "assistant"]
        said |= {(opening, number): message for number, message in enumerate(turns)}

    def react(request):
        message = said[first_user(request), len(answers_in(request))]
        if message.calls:
            return calls(*((call.name, json.dumps(call.arguments)) for call in message.calls))
        return says(message.text)

    return react


@pytest.mark.parametrize("env", [NOTES, HERE / "sums", ENVIRONMENTS / "arithmetic"], ids=lambda env: env.name)
async def test_our_environments_are_played_by_verifiers_own_loop(tmp_path, env):
    exported = await anyio.to_thread.run_sync(partial(export_environment, "verifiers", env, tmp_path / "out", limit=6))
    golden = RunConfig(env=str(env), model=ModelConfig(spec="scripted:golden"), select=Selection(tasks=exported.tasks))
    played = await run_config(golden, place=tmp_path / "golden")
    traces = [played.trace(task) for task in exported.tasks]
    module = next(file for file in (tmp_path / "out").glob("*.py"))
    async with FakeEndpoint(then=golden_reaction(traces)) as endpoint:
        theirs = await their_rewards(module, tmp_path / "out", endpoint, {"runs": str(tmp_path / "runs")})
        assert [(each["reward"], each["error"]) for each in theirs] == [(1.0, False)] * len(traces)
        endpoint.then = says("I have nothing to say.")
        theirs = await their_rewards(module, tmp_path / "none", endpoint, {})  # its `evaluate`, on the held-out tasks
        assert theirs
        assert {(each["reward"], each["error"]) for each in theirs} == {(0.0, False)}
    stored = Run(tmp_path / "runs" / "verifiers")
    assert {stored.trace(task).reward for task in exported.tasks} == {1.0}


# -- what cannot be imported -------------------------------------------------------------------------------------------


async def test_what_stands_in_the_way_is_said(tmp_path):
    (tmp_path / "empty_env.py").write_text("")
    (tmp_path / "group_env.py").write_text(
        "import verifiers as vf\nfrom datasets import Dataset\n\n\n"
        "def best(completions) -> list[float]:\n    return [1.0 for _ in completions]\n\n\n"
        "def load_environment():\n"
        "    rows = Dataset.from_list([{'question': 'a', 'answer': 'b'}])\n"
        "    return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric(funcs=[best]))\n"
    )
    for name, words in (("empty_env", "does not expose load_environment"), ("group_env", "whole groups"), ("none", "no file")):
        with pytest.raises(ConfigError, match=words):
            await imported(tmp_path / f"{name}.py", tmp_path / name)


async def test_the_name_of_the_source_stands_for_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    named = f"verifiers:{source(SAMPLES / 'guess_number.py')}"
    folder = await anyio.to_thread.run_sync(imported_folder, named)
    assert await anyio.to_thread.run_sync(imported_folder, named) == folder
    assert len(tasks_of(load(folder))) == 3
