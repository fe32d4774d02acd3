"""Port `Subject`: what an audit may rely on, whatever the code that it audits does to its process.

The same function grades in a Sandlot environment (in a new interpreter and in a fork) and as a plain grader (in a sandbox and in
a plain process).
"""

import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from sandlot.audit.subject import Conditions, NamedPlay, Say, Script, Take
from sandlot.audit.subjects.environment.subject import EnvironmentSubject
from sandlot.audit.subjects.foreign.grader import GraderConfig, open_grader
from sandlot.audit.subjects.foreign.worker import Budget
from sandlot.core.errors import ConfigError

SLEEP = str(10**6 + os.getpid())
"""Seconds that no other process sleeps."""
GRADE = """
import os, random, subprocess, sys, time

def grade(answer, golden):
    if answer == "hang":
        time.sleep(600)
    if answer == "die":
        os._exit(3)
    if answer == "print":
        print("{}" * 100, flush=True)
        os.write(1, bytes([255]) * 64)
    if answer == "scribble":
        for fd in range(3, 40):
            try:
                os.write(fd, bytes([255]) * 64)
            except OSError:
                pass
        time.sleep(600)
    if answer == "leave":
        subprocess.Popen(["sleep", "SLEEP"])
    if answer == "raise":
        raise ValueError("no")
    if answer.startswith("import"):
        return float(eval(answer.partition(":")[2]))
    return answer in (golden, "print", "leave")
""".replace("SLEEP", SLEEP)
ENV = """
from sandlot import Ask, Score, environment

@environment("subject", tasks=3)
def subject(rng):
    answer = yield Ask("What is 2+3?", golden="5")
    yield Score(grade(answer, "5"))
"""


@asynccontextmanager
async def opened(kind: str, folder: Path, code: str = GRADE):
    if kind in {"interpreter", "fork"}:
        (folder / "subject.py").write_text(code + ENV)
        subject = EnvironmentSubject(str(folder / "subject.py"), patience_s=1.0)
        if kind == "interpreter":
            yield subject
        else:
            async with subject:
                yield subject
        return
    (folder / "theirs").mkdir()
    (folder / "theirs" / "grader.py").write_text(code)
    lines = [json.dumps({"id": f"subject-{number}", "prompt": "What is 2+3?", "golden": "5"}) for number in range(3)]
    (folder / "tasks.jsonl").write_text("\n".join(lines))
    config = GraderConfig(
        grader="grader:grade",
        tasks=str(folder / "tasks.jsonl"),
        path=(str(folder / "theirs"),),
        python=sys.executable,
        budget=Budget(trial_s=0.5),
    )
    async with open_grader(config, without_sandbox=kind == "process") as grader:
        yield grader


pytestmark = [pytest.mark.timeout(300), pytest.mark.parametrize("kind", ["interpreter", "fork", "sandbox", "process"])]


def says(answer: str, number: int = 0) -> Take:
    return Take(task=f"subject-{number}", play=Script(name="says", turns=((Say(answer),),)))


async def test_it_is_described_with_its_tasks_and_golden_answers(kind, tmp_path):
    async with opened(kind, tmp_path) as subject:
        about = await subject.describe()
    assert [task.id for task in about.tasks] == ["subject-0", "subject-1", "subject-2"]
    assert {task.key["golden"] for task in about.tasks} == {"5"}
    assert about.has_golden


FATES = {
    "hang": "lost (hung)",
    "die": "lost (died)",
    "scribble": "lost (died)",
    "raise": "failed (grader, crash)",
    "print": "scored 1/1",
}


async def test_no_bad_trial_costs_another(kind, tmp_path):
    good = Take(task="subject-2", play=NamedPlay(name="golden"))
    requests = [says("5"), *(each for bad in FATES for each in (says(bad, 1), good, says("6", 2)))]
    async with opened(kind, tmp_path) as subject:
        trials = await subject.take(requests)
    assert [trial.reward for trial in (trials[0], *trials[2::3], *trials[3::3])] == [1.0] * 6 + [0.0] * 5
    for trial, fate in zip(trials[1::3], FATES.values(), strict=True):
        assert trial.fate.startswith(fate)


async def test_code_that_cannot_be_loaded_is_a_config_error(kind, tmp_path):
    with pytest.raises(ConfigError, match="no good"):
        async with opened(kind, tmp_path, "raise RuntimeError('no good')\n") as subject:
            await subject.describe()


YEARS_10 = 10 * 365.25 * 86400


async def test_conditions_hold_where_the_code_runs(kind, tmp_path):
    conditions = Conditions(clock_shift_s=YEARS_10, timezone="Asia/Tokyo", hash_seed=7)
    true = (
        "__import__('datetime').datetime.now().year > 2034",
        "time.localtime().tm_year > 2034",
        "time.localtime(0).tm_hour == 9",
        "os.environ['PYTHONHASHSEED'] == '7'",
    )
    async with opened(kind, tmp_path) as subject:
        trials = await subject.take([says(f"import:{each}") for each in true], conditions)
    assert [trial.fate for trial in trials if not trial.passed] == []


async def test_a_seed_of_the_global_generator_gives_the_same_draws_again(kind, tmp_path):
    async with opened(kind, tmp_path) as subject:
        draws = [
            (await subject.take([says("import:random.random()")], Conditions(random_seed=seed)))[0].reward for seed in (5, 5, 6)
        ]
    assert draws[0] == draws[1] != draws[2]


async def test_nothing_of_it_is_left_running(kind, tmp_path):
    async with opened(kind, tmp_path) as subject:
        left, hung = await subject.take([says("leave"), says("hang", 1)])
    assert left.passed
    assert hung.lost is not None
    with anyio.fail_after(10):  # it is killed, but nobody here is its parent and can wait until the kernel has ended it
        while any(map(_sleeps, Path("/proc").glob("[0-9]*"))):  # noqa: ASYNC110 - the kernel sets no event
            await anyio.sleep(0.01)


def _sleeps(process: Path) -> bool:
    """Whether a process is the `sleep` that the graded code started."""
    try:
        return (process / "cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", SLEEP.encode()]
    except OSError:
        return False
