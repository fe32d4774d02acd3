"""Health of real runs: what a few rollouts tell when they are graded and played again."""

import msgspec

from builders.traces import make_row, make_trace
from sandlot.analysis.health.health import health_async, quick_health, rows_of
from sandlot.analysis.health.item import HealthMark
from sandlot.analysis.health.sentinel import around_difference, difference_of, is_repeatable
from sandlot.core.trace import Event
from sandlot.core.types import End
from sandlot.env.module import forget_modules
from sandlot.run.config import RunConfig, Selection
from sandlot.run.results import Run
from sandlot.run.run import run_config
from sandlot.store.directory import open_run
from sandlot.wiring.config import ModelConfig

SOUND = '''
import os
from sandlot import Environment, Task
env = Environment("notes")

@env.tasks
def tasks(rng):
    for n in range(10):
        yield Task(f"t-{n}", prompt="Write it down.", key={"word": f"w{n}"})

@env.tool
async def write(world, text: str) -> str:
    """Write."""
    await world.write("/out.txt", text)
    return f"{len(text)} characters"

@env.check(points=3)
def written(evidence, task):
    return evidence.read_text("/out.txt") == task.key["word"]

@env.solution
async def solve(agent, task):
    await agent.call("write", text=task.key["word"])
    await agent.say("done")
'''


async def made(tmp_path, text=SOUND, spec="scripted:golden", group=8):
    path = tmp_path / "notes.py"
    path.write_text(text)
    forget_modules(tmp_path)
    config = RunConfig(env=str(path), model=ModelConfig(spec=spec), select=Selection(group=group))
    return await run_config(config, runs=tmp_path / "runs")


async def items(tmp_path, text=SOUND, **options):
    run = await made(tmp_path, text, **{name: options.pop(name) for name in ("spec", "group") if name in options})
    found = await health_async(run, **options)
    return {item.name: item for item in found.items}, found


async def test_a_sound_environment_is_healthy(tmp_path):
    found, health = await items(tmp_path)
    assert health.verdict is HealthMark.OK, health
    assert health.exit_code == 0
    assert found["regrade"].said == "32 graded again, all the same"
    assert found["replay"].said == "8 replayed in fresh worlds, all the same"
    assert health.traces == 80


async def test_a_grader_that_throws_dice_is_caught(tmp_path):
    found, health = await items(tmp_path, SOUND.replace("== task.key", "!= '' and os.urandom(1)[0] < 128 or None is task.key"))
    assert found["regrade"].mark is HealthMark.FAIL
    assert "`written`" in found["regrade"].said
    assert health.exit_code == 1


async def test_a_tool_that_answers_otherwise_each_time_is_a_warning(tmp_path):
    found, _ = await items(tmp_path, SOUND.replace('return f"{len(text)} characters"', "return os.urandom(8).hex()"))
    assert found["replay"].mark is HealthMark.WARN
    assert "observations" in found["replay"].said
    assert found["regrade"].mark is HealthMark.OK


async def test_a_world_that_changes_the_score_fails(tmp_path):
    text = SOUND.replace('("/out.txt", text)', '("/out.txt", text if os.urandom(1)[0] < 128 else "")')
    found, _ = await items(tmp_path, text, replays=64)  # half of them differ
    assert found["replay"].mark is HealthMark.FAIL
    assert "score" in found["replay"].said


async def test_a_changed_or_lost_environment_concludes_nothing(tmp_path):
    run = await made(tmp_path)
    (tmp_path / "notes.py").write_text(SOUND + "\nCHANGED = True\n")
    forget_modules(tmp_path)
    health = await health_async(run)
    assert {item.mark for item in health.items if item.name in {"regrade", "replay"}} == {HealthMark.UNKNOWN}
    assert "has changed since the run" in next(item.said for item in health.items if item.name == "replay")
    (tmp_path / "notes.py").unlink()
    health = await health_async(run)
    assert "cannot be opened" in next(item.said for item in health.items if item.name == "regrade")


async def test_nobody_is_asked_who_need_not_be(tmp_path):
    found, health = await items(tmp_path, regrades=0, replays=0, traces=10, group=2)
    assert {found[name].mark for name in ("regrade", "replay")} == {HealthMark.NOT_ASKED}
    assert health.traces == 10
    assert health.exit_code == 3, "twenty rollouts are too few to know the failure rate"


async def test_another_run_is_what_it_is_compared_with(tmp_path):
    first, second = await made(tmp_path), await made(tmp_path, spec="scripted:noop")
    health = await health_async(second, against=first, regrades=0, replays=0)
    found = next(item for item in health.items if item.name == "drift")
    assert found.mark is HealthMark.WARN
    assert "that run and this one differ in" in found.said
    assert health.against == str(first.path)


async def test_an_empty_run_is_unknown_and_not_fine(tmp_path):
    run = await made(tmp_path, group=1)
    empty = tmp_path / "empty"
    async with open_run(empty, manifest=(run.path / "manifest.json").read_bytes()):
        pass
    health = await health_async(Run(empty))
    assert health.exit_code == 3
    assert HealthMark.FAIL not in {item.mark for item in health.items}


async def test_a_run_from_before_limits_were_kept_is_read(tmp_path):
    run = await made(tmp_path, group=4)
    manifest = msgspec.json.decode((run.path / "manifest.json").read_bytes())
    assert manifest.pop("limits")["turns"] == 16
    (run.path / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    assert Run(run.path).manifest.limits_of("t-0") is None
    assert HealthMark.FAIL not in {item.mark for item in quick_health(Run(run.path))}


async def test_a_large_run_is_read_in_a_draw_that_can_be_repeated(tmp_path):
    run = await made(tmp_path, group=1)
    big = tmp_path / "big"
    async with open_run(big, manifest=(run.path / "manifest.json").read_bytes()) as store:
        for number in range(300):
            trace = make_trace(f"t-{number % 10}", number)
            await store.add(trace, make_row(trace))
    assert len(rows_of(Run(big))) == 300
    one, two = [await health_async(Run(big), traces=40, regrades=0, replays=0) for _ in range(2)]
    assert one == two
    assert one.traces == 40


def test_a_trace_differs_by_its_gravest_difference():
    then, now = make_trace(), make_trace()
    assert difference_of(then, now) is None
    now.evidence = msgspec.structs.replace(now.evidence, state={"n": 9})
    assert difference_of(then, now).what == "evidence"
    now.events.append(Event(kind="replay_diverged", turn=1, detail={"recorded": "\x1b[31ma", "now": "b"}))
    found = difference_of(then, now)
    assert found.what == "observations"
    assert "\x1b" not in found.detail
    now.outcome = None
    assert difference_of(then, now).what == "score"


def test_a_difference_is_shown_where_it_begins():
    same = "x" * 300
    was, now = around_difference(same + "then" + same, same + "now" + same)
    assert was == "x" * 13 + "then" + "x" * 36
    assert now == "x" * 13 + "now" + "x" * 37
    assert around_difference("a", "ab") == ("a", "ab")


def test_what_ran_out_of_time_or_was_intervened_in_is_not_repeated():
    assert is_repeatable(make_trace())
    late = make_trace()
    late.end = End.TIME_LIMIT
    assert not is_repeatable(late)
    hooked = make_trace()
    hooked.events.append(Event(kind="intervention", turn=1))
    assert not is_repeatable(hooked)
