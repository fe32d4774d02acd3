"""What the report of a training run says first."""

import pytest

from sandlot.core.stats.intervals import Interval
from sandlot.train.report.html import _change_cell, headline, what_happened
from sandlot.train.report.summary import Heldout, Level, Outcome, Paired


def heldout(version: int, passed: float, mean: float = 0.5) -> Heldout:
    level = Level(mean=passed, low=passed, high=passed)
    return Heldout(
        version=version,
        mean=mean,
        low=mean - 0.1,
        high=mean + 0.1,
        passed=level,
        pass_at={"1": passed},
        tasks=9,
        rollouts=9,
        failed=0,
    )


def outcome(before: float, after: float, moved: tuple[float, float, float] | None, **changed) -> Outcome:
    paired = None
    if moved is not None:
        difference = Level(low=moved[0], mean=moved[1], high=moved[2])
        paired = Paired(difference=difference, p_value=0.5, tasks=9, improved=1, regressed=1)
    plain = {
        "name": "demo", "environment": "drill", "model": "rookie", "algorithm": "PolicyGradient", "seed": 0,
        "verdict": "complete",
        "stopped": None, "steps": 2, "of_steps": 2, "seconds": 1.0, "cpu_s": 1.0, "sandbox": "native", "rollouts": 9, "failed": 0,
        "heldout_before": heldout(0, before), "heldout_after": heldout(2, after), "paired": paired, "best_version": 2,
        "best_weights": None, "separate": False, "time": {}, "alarms": (), "rollbacks": 0,
    }  # fmt: skip
    return Outcome(**plain | changed)


def test_the_headline_says_what_happened():
    assert what_happened(outcome(0.35, 0.72, (0.3, 0.37, 0.4))) == "demo: held-out full marks 35 % to 72 %"
    assert what_happened(outcome(0.35, 0.36, (-0.1, 0.01, 0.1))) == "demo: held-out full marks 35 % to 36 %, no clear change"
    assert what_happened(outcome(0.0, 0.0, (0.1, 0.2, 0.3))) == "demo: held-out score 0.50 to 0.50"
    assert what_happened(outcome(0.35, 0.35, None)) == "demo: held-out full marks 35 % before the first step"
    assert what_happened(outcome(0, 0, None, heldout_after=None)) == "demo: not evaluated yet"


def test_only_a_clear_rise_is_green_and_only_a_clear_fall_red():
    assert 'class="up"' in headline(outcome(0.3, 0.7, (0.3, 0.4, 0.5)))
    assert 'class="down"' in headline(outcome(0.7, 0.3, (-0.5, -0.4, -0.3)))
    for unclear in ((-0.1, 0.0, 0.1), (0.0, 0.0, 0.0), (-0.1, 0.2, 0.5)):
        assert not any(f'class="{colour}"' in headline(outcome(0.3, 0.3, unclear)) for colour in ("up", "down"))


@pytest.mark.parametrize(
    ("before", "after", "cell"),
    [
        ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), '<td class="dim">0.00</td>'),
        ((0.5, 0.5, 0.5), (0.504, 0.504, 0.504), '<td class="dim">0.00</td>'),
        ((0.4, 0.5, 0.6), (0.43, 0.53, 0.63), '<td class="dim">+0.03</td>'),
        ((0.2, 0.3, 0.4), (0.6, 0.7, 0.8), '<td class="up">+0.40</td>'),
        ((0.6, 0.7, 0.8), (0.2, 0.3, 0.4), '<td class="down">-0.40</td>'),
    ],
)
def test_no_change_has_no_colour(before, after, cell):
    first, last = (Interval(low=low, value=value, high=high) for low, value, high in (before, after))
    assert _change_cell(first, last) == cell


def test_why_a_run_stopped_stands_below_the_headline():
    said = headline(outcome(0.3, 0.3, None, verdict="stopped", stopped="no group <taught> anything"))
    assert '<p class="alarm">stopped: no group &lt;taught&gt; anything</p>' in said
