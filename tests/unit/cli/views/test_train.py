"""A training on the screen."""

from sandlot.cli.views.train import step_line
from sandlot.observe.training_records import EnvironmentStep, Learned

COUNTS = {"passed": 0.0, "rollouts": 1, "failed": 0}


def learned(*names: str) -> Learned:
    parts = {
        name: EnvironmentStep(reward=0.5, groups=1, informative=1, seats={"ada": number / 4, "bob": 1.0}, **COUNTS)
        for number, name in enumerate(names)
    }
    figures = dict.fromkeys(("reward", "outcome", "loss", "norm", "shared", "kl", "entropy", "clipped", "update_s"), 0.0)
    counts = dict.fromkeys(("groups", "informative", "tokens", "staleness", "sampled"), 1)
    return Learned(version=1, seconds=1.0, phases={}, environments=parts, **figures, **counts, **COUNTS)


def test_a_seat_of_the_same_name_in_two_environments_has_two_rewards():
    line = step_line(learned("coins", "chess"), "")
    assert "(coins/ada 0.000, coins/bob 1.000, chess/ada 0.250, chess/bob 1.000)" in line
    assert "(ada 0.000, bob 1.000)" in step_line(learned("coins"), "")
