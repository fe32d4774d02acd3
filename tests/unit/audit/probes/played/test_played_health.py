"""What the audit reads of a model's rollouts."""

import anyio

import sandlot
from builders.static_cases import case_of
from sandlot.audit.probes.played.health import look_at_health

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
