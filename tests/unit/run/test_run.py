"""Runs: every rollout exactly once, a reason whenever they stop, refusals before the first rollout."""

import inspect
import signal
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

import sandlot
from sandlot.core.errors import ConfigError, HarnessError
from sandlot.core.types import Split
from sandlot.observe.events import RolloutEnded, RunEvent, Sink
from sandlot.run import collector
from sandlot.run.config import RunConfig, Selection, plan_run
from sandlot.run.results import Run
from sandlot.run.run import run_config
from sandlot.wiring.config import ModelConfig
from sandlot.wiring.models import SCHEMES

SOURCE = """
from random import Random
from sandlot import Ask, Score, environment

@environment("add", tasks=10)
def add(rng: Random):
    a, b = rng.randrange(100), rng.randrange(100)
    answer = yield Ask(f"What is {a}+{b}?", golden=str(a + b))
    yield Score(answer == str(a + b))
"""


@pytest.fixture
def add(tmp_path) -> Path:
    path = tmp_path / "add.py"
    path.write_text(SOURCE)
    return path


def config(env: Path, model: str = "scripted:golden", **fields) -> RunConfig:
    return RunConfig(env=str(env), model=ModelConfig(spec=model), **fields)


def interrupt_after(count: int) -> Sink:
    """A sink that interrupts the process after so many rollouts, as Ctrl-C would."""
    ended = []

    def sink(event: RunEvent) -> None:
        if isinstance(event, RolloutEnded):
            ended.append(event)
            if len(ended) == count:
                signal.raise_signal(signal.SIGINT)

    return sink


def test_every_task_is_taken_once(add, tmp_path):
    run = sandlot.run(add, "scripted:golden", runs=tmp_path)
    assert sorted(trace.key for trace in run) == sorted((f"add-{n}", 0) for n in range(10))
    assert (run.verdict, run.summary().score.value) == ("complete", 1.0)


def test_rollouts_are_spread_over_the_tasks(add):
    plan = plan_run(sandlot.load(add), config(add, select=Selection(rollouts=23)))
    assert plan.counts == (3, 3, 3, 2, 2, 2, 2, 2, 2, 2)
    assert plan.num_rollouts == 23


def test_a_group_is_so_many_of_each_task(add):
    plan = plan_run(sandlot.load(add), config(add, select=Selection(group=4, tasks=("add-3", "add-1"))))
    assert [(task.id, rollout) for task, rollout in plan.each()] == [(t, n) for t in ("add-3", "add-1") for n in range(4)]


@pytest.mark.parametrize(
    ("select", "complaint"),
    [
        (Selection(rollouts=5, group=2), "not both"),
        (Selection(rollouts=0), "give 1 or more"),
        (Selection(tasks=("add-99",)), "no task `add-99`"),
        (Selection(training=True), "held out"),
    ],
)
def test_a_wrong_selection_is_refused_with_the_fix(add, select, complaint):
    with pytest.raises(ConfigError, match=complaint):
        plan_run(sandlot.load(add), config(add, select=select))


def test_training_on_the_train_split_is_fine(add):
    plan = plan_run(sandlot.load(add), config(add, select=Selection(training=True, split=Split.TRAIN)))
    assert 0 < len(plan.tasks) < 10


def test_a_finished_run_is_not_run_into_again(add, tmp_path):
    first = sandlot.run(add, "scripted:golden", runs=tmp_path)
    second = sandlot.run(add, "scripted:golden", runs=tmp_path)
    assert first.path.name.endswith("-1")
    assert second.path.name.endswith("-2")


def test_another_number_at_once_is_the_same_run(add, tmp_path):
    env = sandlot.load(add)
    from sandlot.run.manifest import Fingerprints, run_digest

    prints = Fingerprints(environment="e", setting="s", tasks="t")
    assert run_digest(config(add, at_once=1), prints) == run_digest(config(add, at_once=99), prints)
    assert run_digest(config(add), prints) != run_digest(config(add, model="scripted:noop"), prints)
    assert env.name == "add"


@pytest.mark.parametrize("adapt", [msgspec.UNSET, False, True])
def test_finding_out_how_many_at_once_changes_no_digest(adapt):
    from sandlot.run.config import RunConfig
    from sandlot.run.manifest import Fingerprints, run_digest
    from sandlot.wiring.config import ModelConfig

    prints = Fingerprints(environment="e", setting="s", tasks="t")
    plain, adapting = (RunConfig(env="x", model=ModelConfig(spec="scripted:golden"), **more) for more in ({}, {"adapt": adapt}))
    assert run_digest(adapting, prints) == run_digest(plain, prints)
    assert b"adapt" not in msgspec.json.encode(plain), "it would change the digest of every run that was begun before"


@pytest.mark.parametrize(
    "fields",
    [{"routing": "round-robin"}, {"eviction": "lru"}, {"speculate": "siblings"}, {"kv_gib": 2.0}, {"connections": 7}],
)
def test_what_only_changes_the_speed_of_a_model_does_not_change_the_run(add, fields):
    from sandlot.run.manifest import Fingerprints, run_digest

    prints = Fingerprints(environment="e", setting="s", tasks="t")
    plain = config(add)
    faster = msgspec.structs.replace(plain, model=msgspec.structs.replace(plain.model, **fields), judge=plain.model)
    assert run_digest(faster, prints) == run_digest(msgspec.structs.replace(plain, judge=faster.model), prints)


async def test_an_interrupted_run_is_continued_by_the_same_command(add, tmp_path):
    settings = config(add, select=Selection(group=5), at_once=2)
    first = await run_config(settings, runs=tmp_path, sink=interrupt_after(7))
    assert first.verdict == "incomplete"
    assert "interrupted by SIGINT" in first.sittings[0].stopped
    assert 7 <= len(first) < 50
    again = await run_config(settings, runs=tmp_path)
    assert again.path == first.path
    assert again.verdict == "complete"
    assert len({trace.key for trace in again}) == len(again) == 50
    assert len(again.sittings) == 2


async def test_ctrl_c_while_the_model_is_opened_ends_the_run_at_once_and_leaves_nothing(add, tmp_path, monkeypatch):
    closed = []

    @asynccontextmanager
    async def open_slowly(*_args):
        await anyio.wait_all_tasks_blocked()  # somebody listens
        signal.raise_signal(signal.SIGINT)
        try:
            await anyio.sleep_forever()
            yield
        finally:
            closed.append(True)

    monkeypatch.setitem(SCHEMES, "slow", open_slowly)

    async def interrupted() -> str:
        try:
            await run_config(config(add, "slow:x"), runs=tmp_path / "runs")
        except KeyboardInterrupt as error:  # not out of the test's own loop
            return str(error)
        return "not interrupted"

    with anyio.fail_after(10):
        assert "interrupted by SIGINT" in await interrupted()
    assert closed
    assert not list((tmp_path / "runs").glob("add-*"))


async def test_a_run_that_is_stopped_as_broken_while_it_is_opened_says_why(add, tmp_path, monkeypatch):
    @asynccontextmanager
    async def only_dies(_rest, plan):
        plan.stop("8 workers ended")
        await anyio.sleep_forever()
        yield

    monkeypatch.setitem(collector._EXECUTORS, "processes", only_dies)
    with pytest.raises(HarnessError, match="8 workers ended"):
        await run_config(config(add), runs=tmp_path, on="processes:1")


async def test_a_run_in_a_named_place_refuses_a_changed_environment(add, tmp_path):
    place = tmp_path / "here"
    await run_config(config(add), place=place)
    add.write_text(SOURCE.replace("randrange(100)", "randrange(50)"))
    from sandlot.env.module import forget_modules

    forget_modules(tmp_path)
    with pytest.raises(ConfigError, match="begun with another environment"):
        await run_config(config(add), place=place)


async def test_a_run_on_a_host_image_that_moved_says_which_part(add, tmp_path, monkeypatch):
    place = tmp_path / "here"
    monkeypatch.setattr("sandlot.sandbox.images.host.packages_digest", lambda: "e" * 64)
    await run_config(config(add, image="host", select=Selection(tasks=("add-1",))), place=place)
    monkeypatch.setattr("sandlot.sandbox.images.host.packages_digest", lambda: "f" * 64)
    with pytest.raises(ConfigError, match="the image `host` changed: the machine's packages"):
        await run_config(config(add, image="host", select=Selection(tasks=("add-1",))), place=place)


async def test_a_run_whose_environment_keeps_failing_is_stopped_and_says_who(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text(SOURCE.replace("yield Score(answer", "1 / 0; yield Score(answer"))
    run = await run_config(config(path, select=Selection(group=20), at_once=2), runs=tmp_path)
    assert run.verdict == "stopped"
    assert "failed on the grader side" in run.sittings[0].stopped
    assert len(run) < 200
    assert {trace.reward for trace in run} == {None}
    assert run.summary().score.value is None


async def test_a_model_that_keeps_failing_is_tried_again_then_stops_the_run(add, tmp_path):
    run = await run_config(config(add, model="scripted:crash", select=Selection(group=20), at_once=2), runs=tmp_path)
    assert run.verdict == "stopped"
    assert "model side" in run.sittings[0].stopped
    assert {len(trace.attempts) for trace in run} == {1}


def test_a_judge_is_asked_for_before_the_first_rollout(tmp_path):
    folder = tmp_path / "judged"
    (folder / "rubrics").mkdir(parents=True)
    (folder / "environment.toml").write_text('name = "judged"')
    (folder / "tasks.py").write_text("from sandlot import Task\ndef tasks(rng):\n    yield Task('a', prompt='x')\n")
    rubric = {"checks": [{"kind": "judge", "id": "nice", "prompt": "It is polite."}]}
    (folder / "rubrics" / "default.json").write_bytes(msgspec.json.encode(rubric))
    with pytest.raises(ConfigError, match="--judge"):
        sandlot.run(folder, "scripted:noop", runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_the_manifest_is_enough_to_repeat_the_run_and_holds_no_secret(add, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key-123")
    run = sandlot.run(add, "scripted:golden", runs=tmp_path)
    text = (run.path / "manifest.json").read_text()
    assert "canary-key-123" not in text
    manifest = run.manifest
    assert manifest.config.model.spec == "scripted:golden"
    assert manifest.fingerprints.environment
    assert manifest.machine["cores"] >= 1


def test_two_runs_of_the_same_tasks_are_compared_by_task(add, tmp_path):
    golden = sandlot.run(add, "scripted:golden", runs=tmp_path)
    nothing = sandlot.run(add, "scripted:noop", runs=tmp_path)
    comparison = nothing.compare(golden)
    assert comparison.score.value == 1.0
    assert len(comparison.improved) == 10


def test_runs_in_other_settings_are_not_compared_unless_told_to(add, tmp_path):
    golden = sandlot.run(add, "scripted:golden", runs=tmp_path)
    other = tmp_path / "other.py"
    other.write_text(SOURCE.replace("tasks=10", "tasks=10, system='Think.'"))
    second = sandlot.run(other, "scripted:golden", runs=tmp_path)
    with pytest.raises(ConfigError, match="settings differ"):
        golden.compare(second)
    assert golden.compare(second, despite_setting=True).note


def test_a_directory_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="not a run"):
        Run(tmp_path)


async def test_an_author_thread_that_never_returns_stops_the_run_by_name(tmp_path, monkeypatch):
    import threading

    from sandlot.core.concurrency.threads import ABANDONED
    from sandlot.run import collector

    monkeypatch.setattr(collector, "_MAX_ABANDONED", 3)
    release = threading.Event()
    env = sandlot.Environment("stuck", limits=sandlot.Limits(tool_s=0.02, turns=1))
    env.tasks(lambda rng: (sandlot.Task(f"t-{n}", prompt="go") for n in range(50)))
    env.check(points=1, id="ok")(lambda evidence: True)

    @env.tool
    def wait() -> None:
        """Wait."""
        release.wait()

    try:
        run = await run_config(config(tmp_path / "stuck", model="scripted:loop", at_once=4), env=env, runs=tmp_path)
        assert run.verdict == "stopped"
        assert "wait` did not return" in run.sittings[0].stopped
    finally:
        release.set()
        ABANDONED.clear()


async def test_a_run_is_not_continued_with_another_model(add, tmp_path):
    place = tmp_path / "here"
    await run_config(config(add), place=place)
    with pytest.raises(ConfigError, match="begun with another model"):
        await run_config(config(add, model="scripted:noop"), place=place)


def test_what_a_hook_cancelled_says_nothing_about_the_environment(add, tmp_path, monkeypatch):
    hooks = tmp_path / "guard.py"
    hooks.write_text(
        "from sandlot.core.errors import StoppedByHook\n"
        "class Guard:\n    async def after_turn(self, trace, node):\n        raise StoppedByHook('enough')\n"
        "    async def after_step(self, trace, step):\n        pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from sandlot.wiring.config import AgentConfig

    run = sandlot.run(add, "scripted:golden", agent=AgentConfig(hooks=("guard:Guard",)), runs=tmp_path)
    assert run.verdict == "complete"
    assert run.summary().cancelled == 10


def test_a_changed_key_is_another_run(tmp_path):
    from sandlot.run.manifest import gather_facts

    path = tmp_path / "quiz.py"
    path.write_text(
        "from sandlot import *\nenv = Environment('quiz')\nenv.check()(lambda evidence: True)\n"
        "env.tasks(lambda rng: tasks_from(__file__.replace('quiz.py', 'tasks.jsonl')))\n"
    )
    prints = []
    for key in ("1", "2"):
        (tmp_path / "tasks.jsonl").write_text('{"id": "a", "prompt": "?", "key": {"k": KEY}}\n'.replace("KEY", key))
        env = sandlot.load(path)
        import anyio

        prints.append(anyio.run(gather_facts, env, config(path), plan_run(env, config(path))).prints)
    assert prints[0].tasks != prints[1].tasks


def echo(name: str, *, num_tasks: int, setup=None, check=lambda evidence: True) -> sandlot.Environment:
    env = sandlot.Environment(name)
    env.tasks(lambda rng: (sandlot.Task(f"t-{n}", prompt="go") for n in range(num_tasks)))
    env.check(points=1, id="ok")(check)
    if setup is not None:
        env.setup(setup)
    return env


async def test_a_stopped_run_goes_on_when_the_command_is_repeated_and_what_failed_is_taken_again(tmp_path):
    graded = Counter()
    disk_is_full = True

    def check(evidence):
        graded["all"] += 1
        if graded["all"] > 120 and disk_is_full:
            raise OSError("no space left on device")
        return True

    env = echo("disk", num_tasks=40, check=check)
    settings = config(tmp_path / "disk", model="scripted:noop", select=Selection(group=6), at_once=4)
    first = await run_config(settings, env=env, runs=tmp_path)
    assert first.verdict == "stopped"
    assert 8 <= first.summary().failed["grader"] <= 8 * 6 + 4  # eight tasks, and what was in flight
    disk_is_full = False
    again = await run_config(settings, env=env, runs=tmp_path)
    assert again.path == first.path
    assert (again.verdict, again.finished) == ("complete", True)
    assert sorted(trace.key for trace in again) == sorted((f"t-{n}", rollout) for n in range(40) for rollout in range(6))
    assert again.summary().scored == 240
    assert [sitting.tripped for sitting in again.sittings] == [True, False]


async def test_a_run_whose_environment_is_still_broken_stops_again_and_goes_on_after_that(tmp_path):
    def check(evidence):
        raise OSError("no space left on device")

    settings = config(tmp_path / "disk", model="scripted:noop", select=Selection(group=5), at_once=1)
    env = echo("disk", num_tasks=40, check=check)
    for sitting in range(1, 4):
        run = await run_config(settings, env=env, runs=tmp_path)
        assert (run.verdict, len(run), len(run.sittings)) == ("stopped", 8, sitting)


async def test_a_run_that_was_stopped_by_its_last_rollout_goes_on_as_well(tmp_path):
    disk_is_full = True

    def check(evidence):
        if disk_is_full:
            raise OSError("no space left on device")
        return True

    settings = config(tmp_path / "disk", model="scripted:noop", at_once=1)
    env = echo("disk", num_tasks=8, check=check)
    first = await run_config(settings, env=env, runs=tmp_path)
    assert (first.verdict, len(first), first.finished) == ("stopped", 8, False)
    disk_is_full = False
    again = await run_config(settings, env=env, runs=tmp_path)
    assert (again.path, again.verdict, again.summary().scored) == (first.path, "complete", 8)


async def test_three_failures_in_three_hundred_that_end_first_stop_nothing(tmp_path):
    bad = {"t-5", "t-105", "t-205"}
    met = anyio.Event()

    async def setup(world, task):
        if task.id in bad:
            bad.discard(task.id)
            if not bad:
                met.set()
            raise OSError("hostile")
        await met.wait()

    env = echo("hostile", num_tasks=300, setup=setup)
    run = await run_config(config(tmp_path / "x", model="scripted:noop", at_once=300), env=env, runs=tmp_path)
    assert (run.verdict, run.summary().scored) == ("complete", 297)


async def test_a_task_whose_setup_is_broken_stops_nothing_though_it_comes_first_and_is_tried_often(tmp_path):
    async def setup(world, task):
        if task.id == "t-0":
            raise OSError("this task is broken")

    env = echo("onebad", num_tasks=20, setup=setup)
    run = await run_config(
        config(tmp_path / "x", model="scripted:noop", select=Selection(group=12), at_once=8), env=env, runs=tmp_path
    )
    assert (run.verdict, run.summary().failed["environment"]) == ("complete", 12)


@pytest.mark.parametrize("num_tasks", [1, 2, 50])
async def test_an_environment_that_always_fails_stops_after_eight_rollouts_however_large_the_groups_are(tmp_path, num_tasks):
    async def setup(world, task):
        raise OSError("broken")

    env = echo("broken", num_tasks=num_tasks, setup=setup)
    run = await run_config(
        config(tmp_path / "x", model="scripted:noop", select=Selection(group=100), at_once=1), env=env, runs=tmp_path
    )
    assert (run.verdict, len(run)) == ("stopped", 8)


async def test_run_works_where_an_event_loop_is_running(add, tmp_path):
    run = sandlot.run(add, "scripted:golden", runs=tmp_path)  # as in a notebook: blocks, in a loop of its own
    assert (run.verdict, len(run)) == ("complete", 10)


async def test_run_async_takes_what_run_takes(add, tmp_path):
    run = await sandlot.run_async(add, "scripted:golden", group=2, tasks=("add-1",), runs=tmp_path)
    assert sorted(trace.key for trace in run) == [("add-1", 0), ("add-1", 1)]
    assert inspect.signature(sandlot.run) == inspect.signature(sandlot.run_async)
    assert sandlot.run.__doc__


def test_errors_inside_a_running_loop_are_the_same(add, tmp_path):
    async def inside() -> None:
        with pytest.raises(ConfigError, match="no task `nine`"):
            sandlot.run(add, "scripted:golden", tasks=("nine",), runs=tmp_path)

    anyio.run(inside)


def test_the_same_seed_draws_the_same_in_another_run(add, tmp_path):
    def said(folder: str, **fields) -> list[str]:
        run = sandlot.run(add, "scripted:mixed:0.5", runs=tmp_path / folder, tasks=("add-1",), group=16, **fields)
        assert {trace.run for trace in run} == {run.path.name}
        return [trace.reward for trace in sorted(run, key=lambda trace: trace.rollout)]

    assert said("a", seed=7) == said("a", seed=7) == said("b", seed=7)
    assert said("a", seed=7) != said("a", seed=8)


def test_a_split_may_be_named_by_a_word(add, tmp_path):
    run = sandlot.run(add, "scripted:golden", split="heldout", runs=tmp_path)
    assert 0 < len(run) < 10
    with pytest.raises(ConfigError, match="split is `test`; there are: `train`, `heldout`"):
        sandlot.run(add, "scripted:golden", split="test", runs=tmp_path)


def test_a_run_can_be_repeated_from_its_config(add, tmp_path):
    first = sandlot.run(add, "scripted:golden", group=2, at_once=3, runs=tmp_path)
    again = sandlot.run(config=first.path / "manifest.json", runs=tmp_path)
    assert again.manifest.config == first.manifest.config
    assert sandlot.run(config=first.manifest.config, runs=tmp_path).manifest.config == first.manifest.config
    for name, value in {"group": 3, "seed": 0, "at_once": 5, "sandbox": "docker"}.items():
        with pytest.raises(ConfigError, match=f"`{name}` cannot be given too"):
            sandlot.run(config=first.manifest.config, runs=tmp_path, **{name: value})
    with pytest.raises(ConfigError, match="give an environment and a model"):
        sandlot.run(add)
    for odd in ('{"env": 3}', "[" * 100_000):
        (tmp_path / "odd.json").write_text(odd)
        with pytest.raises(ConfigError, match=r"odd\.json` is not a run"):
            sandlot.run(config=tmp_path / "odd.json")
