"""Several runs at once: each has its own directory and its own end."""

import anyio
import pytest

from sandlot import Ask, Environment, Score, Task, environment
from sandlot.core.errors import ConfigError
from sandlot.observe.events import RolloutBegan
from sandlot.run.collector import open_collector
from sandlot.run.config import RunConfig, Selection
from sandlot.run.prepare import find_directory, prepare_run
from sandlot.run.results import Run
from sandlot.run.run import run_together
from sandlot.wiring.config import ModelConfig


def made(name: str, tasks: int = 4) -> Environment:
    @environment(name, tasks=tasks)
    def add(rng):
        a, b = rng.randrange(100), rng.randrange(100)
        answer = yield Ask(f"What is {a}+{b}?", golden=str(a + b))
        yield Score(answer == str(a + b))

    return add


def config(env: Environment, **fields) -> RunConfig:
    return RunConfig(env=env.name, model=ModelConfig(spec="scripted:golden"), **fields)


async def test_each_environment_has_a_run_of_its_own(tmp_path):
    envs = [made("one"), made("two", tasks=6)]
    events: list[list] = [[], []]
    runs = await run_together(
        [config(env, select=Selection(group=2)) for env in envs],
        envs=envs,
        runs=tmp_path,
        sinks=[each.append for each in events],
    )
    assert [run.manifest.environment for run in runs] == ["one", "two"]
    assert [(run.verdict, run.summary().rollouts) for run in runs] == [("complete", 8), ("complete", 12)]
    assert [sum(isinstance(event, RolloutBegan) for event in each) for each in events] == [8, 12]


@pytest.mark.parametrize(("adapt", "is_found_out"), [((True, True), True), ((True, False), False)])
async def test_how_many_at_once_is_found_out_if_all_of_them_ask_for_it(tmp_path, adapt, is_found_out):
    envs = [made("one"), made("two")]
    configs = [config(env, adapt=each) for env, each in zip(envs, adapt, strict=True)]
    runs = await run_together(configs, envs=envs, runs=tmp_path)
    assert [run.sittings[-1].admission is not None for run in runs] == [is_found_out] * 2


async def test_all_of_them_have_one_room(tmp_path):
    most, now = 0, 0

    def busy(name: str) -> Environment:
        env = Environment(name)

        @env.tasks
        def tasks(rng):
            yield from (Task(id=f"t{number}", prompt="Wait.") for number in range(8))

        @env.tool
        async def wait() -> str:
            """Wait a little."""
            nonlocal most, now
            now += 1
            most = max(most, now)
            await anyio.sleep(0.01)
            now -= 1
            return "done"

        @env.check(points=1)
        def waited(world):
            return True

        @env.solution
        async def solve(agent, task):
            await agent.call("wait")

        return env

    envs = [busy("one"), busy("two"), busy("three")]
    runs = await run_together([config(env, at_once=4) for env in envs], envs=envs, runs=tmp_path)
    assert [run.verdict for run in runs] == ["complete"] * 3
    assert 1 < most <= 4


async def test_one_that_is_refused_refuses_all_before_anything_starts(tmp_path):
    envs = [made("one"), made("two")]
    with pytest.raises(ConfigError, match="has no task `gone`"):
        await run_together([config(envs[0]), config(envs[1], select=Selection(tasks=("gone",)))], envs=envs, runs=tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_the_same_run_twice_is_refused(tmp_path):
    env = made("one")
    with pytest.raises(ConfigError, match="two of the runs are the same"):
        await run_together([config(env), config(env)], envs=[env, env], runs=tmp_path)


async def test_one_that_cannot_be_opened_leaves_the_others_alone(tmp_path):
    envs = [made("one"), made("two")]
    configs = [config(env) for env in envs]
    path = find_directory(tmp_path, await prepare_run(envs[0], configs[0]))
    async with open_collector(await prepare_run(envs[0], configs[0]), path):  # someone else writes to the first
        with pytest.raises(ConfigError, match=path.name):
            await run_together(configs, envs=envs, runs=tmp_path)
    (other,) = (Run(each) for each in tmp_path.iterdir() if each.name.startswith("two"))
    assert other.verdict == "complete"
