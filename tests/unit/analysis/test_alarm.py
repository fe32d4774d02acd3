"""The alarm: silent when nothing drifts or both rise, loud when only the reward does."""

from types import SimpleNamespace

import numpy as np

from sandlot.analysis.alarm import ALPHA, alarm, drift_evidence


def steps(rewards, outcomes, error=0.05):
    return [
        SimpleNamespace(version=n + 1, reward=r, outcome=o, reward_error=error, gap_error=error)
        for n, (r, o) in enumerate(zip(rewards, outcomes, strict=True))
    ]


def test_a_figure_that_does_not_drift_is_hardly_ever_called_rising_however_often_one_looks():
    rng = np.random.default_rng(3)
    runs = 400
    false = sum(
        any(drift_evidence(walk[:n], [1.0] * n) >= 1 / ALPHA for n in range(2, 41)) for walk in rng.normal(0, 1, (runs, 40))
    )
    assert false / runs <= 2 * ALPHA


def test_a_reward_that_rises_alone_raises_the_alarm():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.05, (2, 20))
    found = alarm(steps(np.linspace(0.1, 0.8, 20) + noise[0], 0.1 + noise[1]))
    assert found is not None
    assert found.reward_rise > 0.3
    assert abs(found.outcome_rise) < 0.1
    assert "look at what the rubric rewards" in found.sentence


def test_an_outcome_that_follows_is_no_alarm():
    rng = np.random.default_rng(0)
    for share in (0.5, 1.0):  # partial credit may rise faster than full marks do
        noise = rng.normal(0, 0.05, (2, 30))
        assert alarm(steps(np.linspace(0.1, 0.8, 30) + noise[0], share * np.linspace(0.1, 0.8, 30) + noise[1])) is None


def test_a_reward_that_falls_or_few_steps_are_no_alarm():
    assert alarm(steps(np.linspace(0.8, 0.1, 20), [0.1] * 20)) is None
    assert alarm(steps([0.0, 1.0, 1.0], [0.0] * 3)) is None
    assert alarm([]) is None
