"""On a busy machine a slow worker is not called hung: time in which it waited for a processor does not count."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sandlot.audit.starved import ATTEMPTS, longest_wait, process_tree, take_measured, waits_of, was_starved
from sandlot.audit.subject import PLAIN, Lost, NamedPlay, Take, Trial
from sandlot.core.errors import HarnessError
from sandlot.core.trace import Failed
from sandlot.core.types import Side
from worlds.subjects import ToySubject, case_of, sums

WORK_S = 0.3
COMPETITORS = 3
ENV = f"""
import time
from sandlot import Environment, Task
env = Environment("slow")
@env.tasks
def tasks(rng):
    yield Task("one", prompt="Say 1.")
@env.check(points=1)
async def right(evidence, task):
    end = time.process_time() + {WORK_S}
    while time.process_time() < end:
        pass
    return evidence.answer == "1"
@env.solution
async def solve(agent, task):
    await agent.say("1")
"""
needs_counts = pytest.mark.skipif(not waits_of([os.getpid()]), reason="this kernel does not count waiting for a processor")


@pytest.fixture
def one_processor() -> Iterator[None]:
    """This process and all that it starts share one processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@contextmanager
def crowd() -> Iterator[None]:
    """Others that never rest."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(COMPETITORS)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


@needs_counts
@pytest.mark.usefixtures("one_processor")
async def test_a_check_that_waits_for_a_processor_is_not_hung(tmp_path, subject_of):
    (tmp_path / "slow.py").write_text(ENV)
    subject = subject_of(tmp_path / "slow.py", patience_s=2 * WORK_S)
    await subject.describe()
    with crowd():
        (trial,) = await subject.take([Take(task="one", play=NamedPlay(name="golden"))])
    assert trial.lost is None
    assert trial.passed
    assert trial.starved_s > 0


def test_waiting_is_counted_from_thread_to_thread():
    before = {(1, 1): 5.0, (1, 2): 1.0}
    assert longest_wait(before, {(1, 1): 5.5, (1, 2): 3.0}, 10.0) == 2.0
    assert longest_wait(before, {(1, 1): 5.5, (2, 7): 0.7}, 10.0) == 0.7
    assert longest_wait(before, {(1, 2): 9.0}, 3.0) == 3.0
    assert longest_wait(before, {}, 3.0) == 0.0


@pytest.mark.parametrize("session", [False, True], ids=["of its parent", "of its own"])
def test_a_family_is_a_process_with_its_descendants(session):
    code = (
        f"import subprocess; cat = subprocess.Popen(['cat'], start_new_session={session}); print(cat.pid, flush=True); cat.wait()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        below = int(process.stdout.readline())
        assert process_tree(process.pid) == {process.pid, below}
        process.stdin.close()


OUT_OF_TIME = Trial(scores=(Failed(Side.GRADER, "timeout", "120 s are over"),))


@pytest.mark.parametrize(("wall_s", "starved_s", "starved"), [(120.0, 80.0, True), (120.0, 6.0, False), (0.2, 0.09, False)])
def test_running_out_of_time_is_a_flaw_unless_most_of_it_was_waiting(wall_s, starved_s, starved):
    assert was_starved(OUT_OF_TIME, wall_s, starved_s) is starved
    assert not was_starved(Trial(), wall_s, starved_s)


@needs_counts
@pytest.mark.usefixtures("one_processor")
async def test_running_out_of_time_while_waiting_for_a_processor_says_nothing():
    taken: list[int] = []

    async def take() -> Trial:
        taken.append(1)
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
        return OUT_OF_TIME

    with crowd():
        trial = await take_measured(take)
        assert trial.lost is not None
        assert trial.lost.busy
        assert len(taken) == ATTEMPTS
        assert (await take_measured(take, may_run_out=True)).failed == OUT_OF_TIME.failed
    assert len(taken) == ATTEMPTS + 1


class _Crowded(ToySubject):
    """Has no processor for its second trial."""

    async def take(self, requests, conditions=PLAIN):
        lost = Lost(kind="hung", message="the machine is too busy", busy=True)
        return [Trial(lost=lost) if place == 1 else Trial() for place, _ in enumerate(requests)]


async def test_a_trial_that_a_busy_machine_cost_is_never_a_finding_but_ends_the_audit():
    case = await case_of(_Crowded(lambda _evidence, _task: 1.0, sums(2)))
    takes = [Take(task=task.id, play=NamedPlay(name="golden")) for task in case.tasks]
    assert await case.take(takes[:1]) == [Trial()]
    with pytest.raises(HarnessError, match="the machine is too busy"):
        await case.take(takes)
