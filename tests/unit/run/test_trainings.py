"""Rollouts that a model learned from: their number is not planned, and their scores do not measure the model."""

import msgspec
import pytest

from sandlot import Run
from sandlot.analysis.health.health import health_async
from sandlot.core.errors import ConfigError
from sandlot.core.types import Split
from sandlot.env.load import load
from sandlot.run.config import RunConfig, Selection
from sandlot.run.run import run_config
from sandlot.wiring.config import ModelConfig

SOURCE = """
from random import Random
from sandlot import Ask, Score, environment

@environment("add", tasks=60)
def add(rng: Random):
    a, b = rng.randrange(100), rng.randrange(100)
    answer = yield Ask(f"What is {a}+{b}?", golden=str(a + b))
    yield Score(answer == str(a + b))
"""


@pytest.fixture
def env(tmp_path):
    (tmp_path / "add.py").write_text(SOURCE)
    return load(tmp_path / "add.py")


async def made(env, place, teacher: str, *evaluations: str, verdict: str | None = "complete") -> Run:
    """A folder as a training leaves it: what was learned from, held-out evaluations by version, a recipe, a summary."""

    async def take(model: str, place, select: Selection) -> None:
        await run_config(RunConfig(env="add", model=ModelConfig(spec=model), select=select), env=env, place=place)

    await take(teacher, place, Selection(split=Split.TRAIN, group=2))
    manifest = msgspec.json.decode((place / "manifest.json").read_bytes())
    (place / "manifest.json").write_bytes(msgspec.json.encode(manifest | {"num_rollouts": 9_136}))
    (place / "recipe.json").write_text("{}")
    if verdict is not None:
        (place / "summary.json").write_bytes(msgspec.json.encode({"format": 1, "verdict": verdict}))
    for version, model in enumerate(evaluations):
        await take(model, place / "evaluations" / f"{version:06d}", Selection(split=Split.HELDOUT))
    return Run(place)


async def test_trainings_are_compared_by_their_last_heldout_evaluations_and_not_by_their_teachers(env, tmp_path):
    taught = await made(env, tmp_path / "taught", "scripted:golden", "scripted:noop", "scripted:noop")
    learned = await made(env, tmp_path / "learned", "scripted:noop", "scripted:noop", "scripted:golden")
    comparison = taught.compare(learned)
    assert comparison.score.value == 1.0
    assert comparison.tasks == len(learned.measured())
    assert "evaluations/000001" in comparison.evaluations
    assert not taught.measured().compare(taught.measured()).evaluations


async def test_a_training_without_an_evaluation_is_not_compared(env, tmp_path):
    taught = await made(env, tmp_path / "taught", "scripted:golden")
    with pytest.raises(ConfigError, match="without a finished held-out evaluation"):
        taught.compare(taught)


@pytest.mark.parametrize(("verdict", "code"), [("complete", 0), ("incomplete", 3), (None, 3)])
async def test_the_health_of_a_training_is_complete_when_the_training_is(env, tmp_path, verdict, code):
    run = await made(env, tmp_path / "run", "scripted:golden", verdict=verdict)
    health = await health_async(run, regrades=0, replays=0)
    assert (health.exit_code, health.planned) == (code, None)
    assert run.verdict == (verdict or "incomplete")
    assert run.summary().cancelled == 0
