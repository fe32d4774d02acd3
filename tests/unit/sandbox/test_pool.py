"""The pool against a slow and obvious twin, and what must hold whatever happens at the same time."""

from collections import Counter

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.errors import SandboxError
from sandlot.sandbox.pool import MachinePool

IMAGES = st.sampled_from(["a", "b"])


class ToyMachine:
    def __init__(self, number, image, alive):
        self.number = number
        self.image = image
        self.is_gone = False
        self._alive = alive
        alive.add(self)

    async def close(self):
        await anyio.lowlevel.checkpoint()
        self._alive.discard(self)


class ToyStarts:
    """Starts machines with rising numbers; the next `failing` starts fail."""

    def __init__(self, steps=1):
        self.steps = steps
        self.failing = 0
        self.num_started = 0
        self.alive = set()

    async def __call__(self, image):
        for _ in range(self.steps):
            await anyio.lowlevel.checkpoint()
        self.num_started += 1
        if self.failing:
            self.failing -= 1
            raise SandboxError("no machine", kind="start")
        return ToyMachine(self.num_started, image, self.alive)


class TwinPool:
    """The same by plain lists of machine numbers, one operation after the other."""

    def __init__(self, size):
        self.size, self.ready, self.dead = size, {}, set()
        self.failing = self.num_started = 0

    def start(self):
        self.num_started += 1
        if self.failing:
            self.failing -= 1
            return None
        return self.num_started

    def take(self, image):
        living = [number for number in self.ready.get(image, []) if number not in self.dead]
        dropped = self.ready.get(image, []).index(living[0]) + 1 if living else len(self.ready.get(image, []))
        self.ready[image] = self.ready.get(image, [])[dropped:]
        number = living[0] if living else self.start()
        if number is not None:
            self.fill(image)
        return number

    def fill(self, image):
        while len(self.ready.setdefault(image, [])) < self.size:
            number = self.start()
            if number is None:
                return False
            self.ready[image].append(number)
        return True


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), IMAGES),
        st.tuples(st.just("fill"), IMAGES),
        st.tuples(st.just("die"), st.integers(0, 5)),
        st.tuples(st.just("fail"), st.integers(1, 2)),
    ),
    max_size=12,
)


@given(size=st.integers(0, 3), operations=OPERATIONS)
def test_the_pool_does_what_its_slow_twin_does(size, operations):
    async def play():
        starts, twin, taken = ToyStarts(), TwinPool(size), []
        async with anyio.create_task_group() as tasks:
            pool = MachinePool(starts, tasks, size)
            for what, value in operations:
                match what:
                    case "take":
                        expected = twin.take(value)
                        if expected is None:
                            with pytest.raises(SandboxError, match="no machine"):
                                await pool.take(value)
                        else:
                            taken.append(await pool.take(value))
                            assert (taken[-1].number, taken[-1].image) == (expected, value)
                    case "fill":
                        if twin.fill(value):
                            await pool.fill(value)
                        else:
                            with pytest.raises(SandboxError, match="no machine"):
                                await pool.fill(value)
                    case "die":
                        waiting = sorted(starts.alive - set(taken), key=lambda machine: machine.number)
                        if value < len(waiting):
                            waiting[value].is_gone = True
                            twin.dead.add(waiting[value].number)
                    case _:
                        starts.failing = twin.failing = value
                await anyio.wait_all_tasks_blocked()
                kept = {number for numbers in twin.ready.values() for number in numbers}
                assert {machine.number for machine in starts.alive - set(taken)} == kept
                assert (pool.num_ready, starts.num_started) == (len(kept), twin.num_started)
            await pool.close()
            assert (pool.num_ready, starts.alive) == (0, set(taken))

    anyio.run(play)


@given(
    size=st.integers(1, 3),
    steps=st.integers(1, 4),
    takers=st.lists(st.tuples(IMAGES, st.integers(0, 6), st.integers(0, 8)), max_size=8),
    close_after=st.integers(0, 12),
    failing=st.integers(0, 2),
)
def test_takers_at_once_and_cancelled_ones_never_overfill_it_and_leak_nothing(size, steps, takers, close_after, failing):
    """Each taker begins after some steps of the loop and is cancelled after some more, or never (0)."""

    async def wait(num):
        for _ in range(num):
            await anyio.lowlevel.checkpoint()

    async def play():
        starts = ToyStarts(steps)
        starts.failing = failing
        held = set()

        def check():
            waiting = Counter(machine.image for machine in starts.alive - held)
            assert all(count <= size for count in waiting.values())

        async def take(image, begin, end):
            await wait(begin)
            with anyio.CancelScope() as scope:
                takers_group.start_soon(cancel, scope, end)
                try:
                    machine = await pool.take(image)
                except SandboxError:
                    return
                held.add(machine)
                assert not machine.is_gone
            check()

        async def cancel(scope, end):
            await wait(end)
            check()
            if end:
                scope.cancel()

        async with anyio.create_task_group() as tasks:
            pool = MachinePool(starts, tasks, size)
            async with anyio.create_task_group() as takers_group:
                for taker in takers:
                    takers_group.start_soon(take, *taker)
                await wait(close_after)
                await pool.close()
            await anyio.wait_all_tasks_blocked()
        assert starts.alive == held  # what was taken is its taker's; nothing else lives

    anyio.run(play)


async def test_a_machine_that_is_ready_only_after_the_pool_was_closed_is_closed_too():
    starts = ToyStarts(steps=3)
    async with anyio.create_task_group() as tasks:
        pool = MachinePool(starts, tasks, 2)
        tasks.start_soon(pool.fill, "a")
        await anyio.lowlevel.checkpoint()
        await pool.close()
        await anyio.wait_all_tasks_blocked()
    assert (starts.num_started, pool.num_ready, starts.alive) == (1, 0, set())


async def test_a_refill_that_fails_is_only_logged_and_the_next_taker_gets_the_error(caplog):
    starts = ToyStarts()
    async with anyio.create_task_group() as tasks:
        pool = MachinePool(starts, tasks, 1)
        first = await pool.take("a")
        starts.failing = 2
        await anyio.wait_all_tasks_blocked()
        assert "the pool could not be filled" in caplog.text
        with pytest.raises(SandboxError, match="no machine"):
            await pool.take("a")
        assert starts.alive == {first}
        await pool.close()
