from typing import get_args

from sandlot.observe.events import RolloutBegan, RolloutEnded, RolloutEvent
from sandlot.run.executors.messages import RolloutNote


def test_a_worker_may_send_every_event_of_a_rollout_but_those_of_its_run():
    of_the_run = {RolloutBegan, RolloutEnded}
    assert set(get_args(RolloutNote)) == set(RolloutEvent.__subclasses__()) - of_the_run
