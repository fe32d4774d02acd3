import sandlot
from sandlot.env.module import forget_modules
from sandlot.run.regrade import regrade
from sandlot.wiring.parts import Grading

FILE = '''
from sandlot import Environment, Task
env = Environment("notes")

@env.tasks
def tasks(rng):
    for n in range(6):
        yield Task(f"t-{n}", prompt="Write it down.", key={"word": f"w{n}"})

@env.tool
async def write(world, text: str) -> None:
    """Write."""
    await world.write("/out.txt", text)

@env.check(points=3)
def written(evidence, task):
    return evidence.read_text("/out.txt") == task.key["word"]

@env.solution
async def solve(agent, task):
    await agent.call("write", text=task.key["word"])
    await agent.say("done")
'''


async def again(run, path):
    return [item async for item in regrade(run, Grading(env=sandlot.load(path)))]


async def test_grading_again_gives_the_same_to_the_bit(tmp_path):
    path = tmp_path / "notes.py"
    path.write_text(FILE)
    run = await made(path, tmp_path)
    graded = await again(run, path)
    assert len(graded) == 6
    assert all(item.same for item in graded)


async def test_a_changed_check_shows_what_changed(tmp_path):
    path = tmp_path / "notes.py"
    path.write_text(FILE)
    run = await made(path, tmp_path)
    path.write_text(FILE.replace("== task.key", "!= task.key"))
    forget_modules(tmp_path)
    graded = await again(run, path)
    assert [item.changed_checks for item in graded] == [["written"]] * 6
    assert {item.now.score.value for item in graded} == {0.0}


async def test_a_check_that_breaks_while_regrading_is_a_failure_not_a_zero(tmp_path):
    path = tmp_path / "notes.py"
    path.write_text(FILE)
    run = await made(path, tmp_path)
    path.write_text(FILE.replace("return evidence", "1 / 0; return evidence"))
    forget_modules(tmp_path)
    assert {item.now.side for item in await again(run, path)} == {"grader"}


async def test_a_function_that_draws_on_its_own_randomness_is_refused(tmp_path):
    path = tmp_path / "loose.py"
    path.write_text(
        "import random\nfrom sandlot import Ask, Score, environment\n"
        "@environment('loose', tasks=3)\ndef ask(rng):\n"
        "    answer = yield Ask(f'Say {random.random()}.', golden='x')\n    yield Score(answer == 'x')\n"
    )
    run = await made(path, tmp_path)
    assert {(trace.outcome.side, trace.outcome.kind) for trace in run} == {("grader", "changed")}


async def made(path, tmp_path):
    from sandlot.run.config import RunConfig
    from sandlot.run.run import run_config
    from sandlot.wiring.config import ModelConfig

    return await run_config(RunConfig(env=str(path), model=ModelConfig(spec="scripted:golden")), runs=tmp_path / "runs")


async def test_checks_see_the_whole_trace_again(tmp_path):
    path = tmp_path / "notes.py"
    path.write_text(FILE.replace("return evidence.read_text", "return len(evidence.trace.phases) > 2 and evidence.read_text"))
    run = await made(path, tmp_path)
    assert {trace.reward for trace in run} == {1.0}
    assert all(item.same for item in await again(run, path))
