"""The waiting queue gives the job with the smallest key, as it was when it was last computed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.run.schedule.job import RolloutJob, Waits
from sandlot.run.schedule.lengths import Lengths
from sandlot.run.schedule.policies import Adaptive, Fifo, LeastAttained
from sandlot.run.schedule.queue import WaitingQueue

POLICIES = [Fifo(), LeastAttained(), Adaptive()]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 3), st.integers(0, 50)),
        st.tuples(st.just("take"), st.just(0), st.just(0)),
        st.tuples(st.just("ended"), st.integers(0, 3), st.integers(1, 5000)),
    ),
    max_size=40,
)


class SlowQueue:
    """The obvious twin: a list of all waiting jobs with their keys."""

    def __init__(self, policy, lengths):
        self.policy, self.lengths, self.waiting, self.rekey_at = policy, lengths, [], 2.0

    def put(self, job):
        self.waiting.append([self.policy.key(job, self.lengths), job])

    def take(self):
        found = min(self.waiting, key=lambda each: each[0])
        self.waiting.remove(found)
        return found[1]

    def note_lengths(self, group, num_ended):
        every = num_ended >= self.rekey_at
        if self.policy.learns and every:
            self.rekey_at = num_ended * 1.25 + 1
        for entry in self.waiting:
            if self.policy.learns and (every or entry[1].group == group):
                entry[0] = self.policy.key(entry[1], self.lengths)


@given(policy=st.sampled_from(POLICIES), steps=STEPS)
@settings(deadline=None)
def test_it_takes_what_a_slow_queue_takes(policy, steps):
    lengths = Lengths()
    fast, slow = WaitingQueue(policy, lengths), SlowQueue(policy, lengths)
    num_ended = 0
    for index, (what, group, number) in enumerate(steps):
        if what == "put":
            job = RolloutJob(index, group, 0, attained=number)
            fast.put(job)
            slow.put(job)
        elif what == "take" and len(fast):
            assert fast.first() is not None
            taken = fast.take()
            assert taken is slow.take()
            assert taken.waits is None
        elif what == "ended":
            num_ended += 1
            lengths.add(group, number)
            for queue in (fast, slow):
                queue.note_lengths(group, num_ended)
        assert len(fast) == len(slow.waiting)


def test_a_job_that_waits_says_so():
    queue, job = WaitingQueue(Fifo(), Lengths()), RolloutJob(0, 0, 0, waits=None)
    queue.put(job)
    assert job.waits is Waits.TURN
    assert (queue.first(), queue.take(), queue.first(), len(queue)) == (job, job, None, 0)
