"""What a rollout takes of the memory: never so little that it runs out, and nothing that others took for ever."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.run.schedule.memory import RolloutMemory, _Changes

GIB, MIB = 1 << 30, 1 << 20
LOOK_S = 0.25


class Machine:
    """Rollouts that take their memory a while after they have started; as many run as there is said to be room for."""

    def __init__(self, *, total: int, free: int, each: int, late: int = 0, lasts: int = 10**9, most: int = 64) -> None:
        self.total, self.free, self.each = total, free, each
        self.late, self.lasts, self.most = late, lasts, most
        self.memory, self.ages, self.size = RolloutMemory(), [], 4
        self.looked = 0
        self.least_free = free

    @property
    def left(self) -> int:
        return self.free - self.each * sum(age >= self.late for age in self.ages)

    def looks(self, count: int) -> int:
        for _ in range(count):
            self.looked += 1
            self.ages = [age + 1 for age in self.ages if age < self.lasts]
            running, left = len(self.ages), max(0, self.left)
            self.least_free = min(self.least_free, self.left)
            self.memory.learn(settled=running, free=left, seconds=LOOK_S)
            room = self.memory.room(running=running, opening=0, free=left, total=self.total, seconds=LOOK_S)
            if room >= self.size and not self.looked % 20:  # no sooner than the machine was seen with so many
                self.size = min(self.most, 2 * self.size)
            self.ages += [0] * (max(1, min(room, self.size)) - running)
        return len(self.ages)


def test_on_a_large_machine_little_is_kept_back():
    assert Machine(total=1024 * GIB, free=95 * GIB, each=4 * MIB, most=1000).looks(200) == 1000


@pytest.mark.parametrize("lost", [30, 50])
def test_what_a_model_takes_that_is_loaded_meanwhile_is_not_what_rollouts_take(lost):
    machine = Machine(total=64 * GIB, free=60 * GIB, each=MIB, lasts=60)
    machine.looks(4)
    machine.free -= lost * GIB
    machine.looks(2)
    assert machine.memory.each > GIB, "at first it may be what they take"
    assert machine.looks(4000) == 64


@settings(max_examples=25)
@given(
    each=st.integers(64, 4096),
    late=st.integers(0, 12),  # looks: three seconds
    lasts=st.integers(17, 4000),
    fit=st.integers(12, 60),
)
def test_rollouts_that_take_their_memory_within_seconds_never_take_all(each, late, lasts, fit):
    total = each * fit * MIB
    machine = Machine(total=total, free=total, each=each * MIB, late=late, lasts=lasts)
    machine.looks(600)
    assert machine.least_free >= 0


@pytest.mark.parametrize(("linked", "share"), [(True, (0.9, 1.0)), (False, (0.0, 0.3))])
def test_memory_that_changes_by_itself_is_not_what_rollouts_take(linked, share):
    changes, random, found = _Changes(), Random(0), []
    for _ in range(4000):
        running = random.randrange(64)
        if changes.add(running, (64 - (running if linked else random.randrange(64))) * GIB, LOOK_S):
            found.append(changes.is_linked)
    assert share[0] <= sum(found) / len(found) <= share[1]


@pytest.mark.parametrize(("late", "lasts", "fit"), [(13, 27, 39), (2, 19, 39), (9, 18, 46), (6, 39, 44)])
def test_rollouts_that_all_start_and_end_together_never_take_all(late, lasts, fit):
    """They last about as long as a sample, or two: whoever looks only then sees them with nothing."""
    machine = Machine(total=fit * GIB, free=fit * GIB, each=GIB, late=late, lasts=lasts)
    machine.looks(600)
    assert machine.least_free >= 0
