"""What the audit reads of a model's rollouts."""

from types import SimpleNamespace

import anyio
import msgspec

import sandlot
from builders.static_cases import case_of
from sandlot.audit.probes.played.health import look_at_health, reported_findings
from sandlot.run.config import RunConfig
from sandlot.run.prepare import manifest_of, prepare_run
from sandlot.wiring.config import AgentConfig, ModelConfig

SUMS = """
from sandlot import Ask, Score, environment

@environment("sums", tasks=2)
def sums(rng):
    number = rng.randrange(10**6)
    answer = yield Ask(f"What is {number} + 1?", golden=str(number + 1))
    yield Score(answer == str(number + 1))
"""
MARKED = "from pathlib import Path\nPath(__file__).with_suffix('.loaded').touch()\n"


async def test_the_health_of_rollouts_is_read_without_loading_their_environment(tmp_path):
    file = tmp_path / "sums.py"
    file.write_text(SUMS)
    run = await anyio.to_thread.run_sync(lambda: sandlot.run(str(file), "scripted:golden", runs=tmp_path / "runs"))
    file.write_text(MARKED + SUMS)
    case = case_of()
    case.rollouts = run.path
    assert await look_at_health(case) == []
    assert not file.with_suffix(".loaded").exists()


JUDGED = """
from sandlot import Environment, JudgeCheck, Rubric, Task

env = Environment("asked", image="host")
env.tasks(lambda rng: [Task("one", prompt="Go.")])
env.marked.rubrics["default"] = Rubric(checks=(JudgeCheck(id="polite", prompt="It is polite.", view=("transcript",)),))
"""


async def test_a_judge_that_read_what_the_agents_program_reported_is_a_lead(tmp_path):
    (tmp_path / "asked.py").write_text(JUDGED)
    env = sandlot.load(tmp_path / "asked.py")
    model = ModelConfig(spec="scripted:noop")
    for agent, expected in ((AgentConfig(harness="command", command="true"), ("polite",)), (AgentConfig(), ())):
        prepared = await prepare_run(env, RunConfig(env=env.name, model=model, judge=model, agent=agent))
        assert manifest_of(prepared, tmp_path / "none").reported_checks == expected
    manifest = msgspec.structs.replace(manifest_of(prepared, tmp_path / "none"), reported_checks=("polite",))
    (found,) = reported_findings(SimpleNamespace(manifest=manifest))
    assert (found.code, found.check) == ("D16.reported_view", "polite")
