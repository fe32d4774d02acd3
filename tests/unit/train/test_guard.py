"""The guard: silent on the noise of sound runs, in time on runs that collapsed."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.core.errors import ConfigError
from sandlot.observe.training_records import Collapse, Learned
from sandlot.train.guard import CollapseGuard, find_collapse

# Recorded: every column is one step of 16 groups x 8 rollouts on drill's single chores.
UNCORRECTED = {
    "reward": "53 33 50 58 58 61 56 44 53 47 45 41 32 26 36 24 29 31 38 23 10 14 10 1 0 0",
    "informative": "16 14 16 16 14 15 16 16 13 14 12 11 9 13 12 8 9 8 9 9 3 5 2 1 1 0",
    "norm": ".34 .36 .32 .45 .45 .47 .5 .55 .85 .97 .78 1.5 1.4 .7 1.2 2.3 1.5 4.3 1.1 2 2.4 3.7 5.1 2.4 1.8 0",
    "kl": "0 .017 .02 .05 .09 .09 .17 .08 .05 .08 .09 .3 .22 .1 .21 .4 .75 .81 .42 .7 .95 1.2 .91 1.3 2.2 0",
    "entropy": ".15 .26 .18 .22 .28 .26 .27 .32 .28 .36 .37 .58 .56 .7 .75 .97 1.5 1.4 1.2 1.4 1.7 2 1.5 1.9 2.8 0",
    "length": "22 22 21 20 23 20 20 22 23 24 25 27 38 60 57 68 82 94 176 190 235 190 181 178 190 160",
}
"""`rookie`, `staleness=4` without a correction."""
TRUNCATED = {
    "reward": "34 49 68 77 88 71 61 70 67 65 79 69 62 2 0",
    "informative": "12 12 11 10 6 10 7 6 3 10 3 4 1 3 0",
    "norm": ".33 .23 .35 .48 1.01 .43 .6 .52 1.84 .75 1.68 1.58 3.4 .2 0",
    "kl": ".0044 .0248 .0086 .0123 .0124 .0077 .0079 .0117 .0059 .051 .0791 .0777 .109 .0195 0",
    "entropy": ".07 .074 .051 .041 .053 .03 .035 .046 .035 .09 .127 .095 .143 .1 0",
    "length": "60 60 60 60 60 60 60 60 60 60 60 60 60 60 60",
}
"""SmolLM2, `staleness=2`, `Correction("truncate")`: every second step up to 18, then each; lengths were not recorded."""
SOUND_SMOLLM2 = {
    "reward": "72 51 34 57 62 73 56 56 75 64 72 61 68 65 57 64 65 67 55 68 71 41 64 50 73 78 66 64 83 62",
    "informative": "13 4 3 8 4 6 3 7 9 5 5 8 4 3 5 6 3 2 2 1 2 2 3 3 2 3 4 4 5 1",
    "norm": ".7 .3 .9 .5 1.1 .6 .5 .7 .7 .7 .6 .8 .9 .7 .7 1 1.5 1.2 1.5 2.5 .9 .8 .6 .6 1 .8 1.2 .8 1 4.1",
    "kl": "0 0 0 0 0 .001 0 0 0 0 0 .001 0 0 0 0 .001 0 .001 0 .001 0 0 0 0 0 0 0 .001 .001",
    "entropy": "4 5 3 4 5 5 3 3 3 7 4 5 5 5 4 5 6 5 4 6 5 2 2 3 3 3 3 3 15 11",
    "length": "84 115 155 107 102 98 75 89 52 69 63 82 53 67 60 61 51 57 55 52 50 55 59 56 55 56 62 55 51 54",
}
"""SmolLM2, synchronous, steps 31 to 60: few groups inform, and entropy and norm jump at the end. It reached 0.72."""
SOUND_STALE = {
    "reward": "53 33 50 58 57 61 58 44 57 60 66 68 53 43 76 61 72 64 70 72 59 65 64 72 74 67 53 77 63 75 66 81 74 73",
    "informative": "16 14 16 16 14 15 16 15 12 15 12 13 15 14 9 13 13 14 14 11 13 12 14 11 11 10 11 13 13 13 11 9 13 7",
    "norm": ".3 .9 .3 .2 .3 .4 .3 .4 .5 .5 .3 .4 .4 .4 .8 .5 .3 .4 .3 .5 .4 .5 .5 3.1 .3 .4 .5 .5 .4 .4 .3 .7 7.6 .3",
    "kl": "0 17 11 14 16 18 15 14 17 11 12 12 28 17 4 3 5 19 8 16 42 27 21 22 8 15 19 8 11 13 10 7 33 22",
    "entropy": "15 26 17 18 23 17 19 21 20 21 20 18 22 29 24 23 18 20 12 20 28 23 20 18 14 20 22 16 18 16 16 8 15 18",
    "length": "22 22 21 20 23 20 21 22 21 20 21 19 21 24 20 20 18 21 19 21 21 19 21 20 19 20 20 20 19 19 19 19 18 20",
}
"""`rookie`, `staleness=8`, the clipped loss: single steps with ten times the norm. It reached 0.81. KL in thousandths."""


def step(version: int, **fields) -> Learned:
    plain = {
        "reward": 0.6, "reward_error": 0.07, "passed": 0.5, "outcome": 0.5, "rollouts": 128, "failed": 0, "groups": 16,
        "informative": 12, "loss": 0.1, "norm": 0.5, "tokens": 2000, "shared": 1.5, "kl": 0.005, "entropy": 0.2, "clipped": 0.0,
        "staleness": 0, "sampled": 128 * 20, "seconds": 2.0, "update_s": 0.5, "phases": {},
    }  # fmt: skip
    return Learned(version=version, **plain | fields)


def curve(columns: dict[str, str], scale: dict[str, float] | None = None) -> list[Learned]:
    """The steps of a recorded run; rewards are in hundredths."""
    by = {"reward": 0.01} | (scale or {})
    rows = zip(*([float(value) * by.get(name, 1) for value in text.split()] for name, text in columns.items()), strict=True)
    return [
        step(number, **values | {"informative": int(values["informative"]), "tokens": 2000 * bool(values["informative"])})
        for number, row in enumerate(rows, 1)
        for values in [dict(zip([*columns][:-1], row, strict=False)) | {"sampled": round(128 * row[-1])}]
    ]


def first_verdict(steps: list[Learned]) -> tuple[int, str] | None:
    verdicts = ((number, find_collapse(steps[:number], 20)) for number in range(1, len(steps) + 1))
    return next(((number, why) for number, why in verdicts if why), None)


def test_collapses_that_were_recorded_are_seen_before_the_reward_is_lost():
    number, why = first_verdict(curve(UNCORRECTED))
    assert number == 13, "the reward was 0.32, and 0.10 eight steps later"
    assert "KL 0.22 is 3.4 times its usual" in why
    assert "the reward fell from 0.57 to 0.39" in why
    number, why = first_verdict(curve(TRUNCATED))
    assert number == 11, "step 20 of the run: the reward was 0.79, and 0.02 three steps later"
    assert why == "KL 0.051 is 5.0 times its usual 0.0101 and entropy 0.09 is 1.8 times its usual 0.05"


@pytest.mark.parametrize(
    ("columns", "scale"), [(SOUND_SMOLLM2, {"entropy": 0.01}), (SOUND_STALE, {"kl": 0.001, "entropy": 0.01})]
)
def test_sound_runs_that_were_recorded_are_not_called_collapsing(columns, scale):
    assert first_verdict(curve(columns, scale)) is None


def ten_and(*last: dict) -> list[Learned]:
    return [*(step(number) for number in range(1, 11)), *(step(11 + number, **fields) for number, fields in enumerate(last))]


def test_one_bad_figure_or_one_bad_step_is_not_enough_and_an_extreme_one_is():
    assert find_collapse(ten_and(*[{"kl": 0.05}] * 3), 20) is None
    assert find_collapse(ten_and(*[{"kl": 0.05, "entropy": 0.4}] * 3), 20) is not None
    assert find_collapse(ten_and({}, {}, {"kl": 9.0, "entropy": 9.0, "reward": 0.4}), 20) is None
    assert find_collapse(ten_and(*[{"sampled": 128 * 200}] * 3), 20) == "length 200 is 10.0 times its usual 20"
    assert find_collapse(ten_and(*[{"reward": 0.0}] * 3), 20) == "the reward fell from 0.60 to 0.00"


def test_few_informative_groups_count_only_if_the_reward_fell():
    few = {"informative": 2}
    assert find_collapse(ten_and(*[few] * 3), 20) is None
    lower = {"reward": 0.42}
    assert find_collapse(ten_and(*[lower] * 3), 20) is None
    assert find_collapse(ten_and(*[few | lower] * 3), 20) == (
        "the reward fell from 0.60 to 0.42 and informative groups fell from 75% to 12%"
    )


def test_an_outcome_that_is_lost_under_a_reward_that_is_not_counts():
    assert find_collapse(ten_and(*[{"outcome": 0.0}] * 3), 20) == "the outcome fell from 0.50 to 0.00"
    assert find_collapse(ten_and(*[{"outcome": 0.0, "gap_error": 0.2}] * 3), 20) is None, "that may be noise"
    assert find_collapse(ten_and(*[{"outcome": 0.0, "reward": 0.0}] * 3), 20) == "the reward fell from 0.60 to 0.00"
    assert find_collapse(ten_and(*[{"outcome": 0.3, "reward": 0.4}] * 3), 20) is None, "they count once"


def test_a_short_history_needs_more():
    steps = ten_and(*[{"reward": 0.0}] * 3)
    assert find_collapse(steps[6:], 20) is None
    assert find_collapse(steps[5:], 20) is not None
    both = ten_and(*[{"reward": 0.0, "sampled": 128 * 50}] * 3)
    assert find_collapse(both[9:], 20) is not None, "one step of history"


def test_a_reward_above_its_best_rules_collapse_out():
    growing = {"kl": 0.5, "entropy": 2.0, "sampled": 128 * 300, "norm": 20.0}
    assert find_collapse(ten_and(*[growing | {"reward": 0.7}] * 3), 20) is None
    assert find_collapse(ten_and(*[growing | {"reward": 0.55}] * 3), 20) is not None


def test_steps_of_one_task_are_judged_by_the_scatter_between_steps():
    noisy = [step(number, reward=number % 2, reward_error=0.0) for number in range(1, 11)]
    bad = {"reward": 0.3, "reward_error": 0.0}
    assert find_collapse([*noisy, *(step(11 + number, **bad) for number in range(3))], 20) is None
    steady = [step(number, reward=0.6, reward_error=0.0) for number in range(1, 11)]
    assert find_collapse([*steady, *(step(11 + number, **bad) for number in range(3))], 20) is not None


def test_after_a_verdict_or_a_rollback_the_next_one_waits():
    lost = ten_and(*[{"reward": 0.0}] * 8)
    assert find_collapse(lost, 20, [11, 3]) is None
    assert find_collapse(lost, 20, [10, 3]) is not None


def test_imitation_and_steps_without_trained_tokens_have_no_kl_to_judge():
    assert find_collapse([step(number, kl=None, reward=1.0, reward_error=0.0) for number in range(1, 9)], 20) is None
    idle = {"kl": 0.0, "entropy": 0.0, "norm": 0.0, "tokens": 0, "informative": 0}
    waiting = [step(number, **idle) for number in range(1, 9)]
    assert find_collapse(waiting, 20) is None
    assert find_collapse([*waiting, *(step(number, norm=5.0) for number in range(9, 12))], 20) is None, "nothing to compare with"


figures = {
    "reward": st.sampled_from([0.0, 0.31, 0.53, 0.67]),
    "reward_error": st.sampled_from([0.0, 0.02, 0.1]),
    "outcome": st.sampled_from([0.0, 0.29, 0.71]),
    "gap_error": st.sampled_from([0.0, 0.03]),
    "kl": st.sampled_from([0.0, 0.01, 0.05, 0.5, None]),
    "entropy": st.sampled_from([0.01, 0.2, 0.5, 2.0]),
    "norm": st.sampled_from([0.1, 0.5, 3.0, math.nan]),
    "sampled": st.sampled_from([128, 128 * 20, 128 * 50, 128 * 200]),
    "informative": st.sampled_from([0, 1, 4, 16]),
    "tokens": st.sampled_from([0, 2000]),
}
levels = st.fixed_dictionaries(figures)
changes = st.sets(st.sampled_from(sorted(figures)), max_size=3).flatmap(
    lambda chosen: st.fixed_dictionaries({name: figures[name] for name in sorted(chosen)})
)


steady = st.builds(lambda usual, now, count: [usual] * count + [usual | now] * 3, levels, changes, st.integers(1, 9))
"""One level all the time, then another that differs in a few figures."""


def middle(values: list[float]) -> float:
    """The median, by counting: a value with as many below as above."""
    known = sorted(values)
    return (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2


def fall_twin(name: str, last: list[Learned], before: list[Learned]) -> tuple[float, int]:
    usual = middle([getattr(each, name) for each in before])
    noise = 1.4826 * middle([abs(getattr(each, name) - usual) for each in before])
    if max(each.reward_error for each in before) > 0:
        noise = 0.0
    found = []
    for level in (*(before[n : n + 5] for n in range(len(before))), last):
        errors = [each.reward_error + (each.gap_error if name == "outcome" else 0) for each in level]
        variance = sum(max(error, noise) ** 2 for error in errors) / len(level) ** 2
        if len(level) == min(5, len(before)) or level is last:
            found.append((round(sum(getattr(each, name) for each in level) / len(level), 9), variance))
    (was, then), (now, error) = max(found[:-1]), found[-1]
    errors, share = (was - now) / max(math.sqrt(then + error), 1e-3), (was - now) / max(abs(was), 1e-3)
    return was - now, (1 + (errors >= 4 and share >= 0.4)) if errors >= 3 and share >= 0.2 else 0


def weight_twin(steps: list[Learned], window: int) -> int:
    """The rule, figure by figure, without any of the code under test."""
    places = range(len(steps))
    last = [steps[n] for n in places if n >= len(steps) - 3]
    before = [steps[n] for n in places if len(steps) - 3 - window <= n < len(steps) - 3]
    if not before:
        return 0
    weight, drop = 0, 0.0
    for name in ("outcome", "reward"):
        drop, lost = fall_twin(name, last, before)
        weight = max(weight, lost)
    if weight:
        few, usual = (middle([each.informative / 16 for each in level]) for level in (last, before))
        weight += few <= 0.5 * usual and few < usual
    if drop < -1e-9:
        return weight
    norm = "scaled norm"
    for name, floor, bad, extreme in (
        ("kl", 0.01, 3, 10),
        ("entropy", 0.05, 1.7, 5),
        (norm, 0.05, 2.5, 10),
        ("length", 8, 1.7, 5),
    ):
        found = []
        for level in (last, before):
            values = []
            for each in level:
                scaled = {norm: each.norm * math.sqrt(each.informative / 16), "length": each.sampled / 128}
                value = scaled[name] if name in scaled else getattr(each, name)
                if value is not None and not math.isnan(value) and (each.tokens or name == "length"):
                    values.append(value)
            found.append(values)
        times = middle(found[0]) / max(middle(found[1]), floor) if found[0] and found[1] else 0
        weight += (times >= bad) + (times >= extreme)
    return weight


@given(st.lists(levels, max_size=14) | steady, st.integers(1, 8))
def test_the_verdict_is_that_of_the_rule_written_out(drawn, window):
    steps = [step(number, **fields) for number, fields in enumerate(drawn, 1)]
    enough = 2 if min(window, len(steps) - 3) >= 5 else 3
    assert (find_collapse(steps, window) is not None) == (weight_twin(steps, window) >= enough)


@settings(deadline=None)
@given(st.lists(levels, min_size=7, max_size=12), st.lists(levels, max_size=5))
def test_steps_before_the_window_do_not_matter(drawn, older):
    recent = [step(number + 20, **fields) for number, fields in enumerate(drawn)]
    earlier = [step(number, **fields) for number, fields in enumerate(older)]
    assert find_collapse([*earlier, *recent], len(recent) - 3) == find_collapse(recent, len(recent) - 3)


def test_a_guard_that_makes_no_sense_is_refused():
    with pytest.raises(ConfigError, match="on_collapse is 'panic'; give one of warn, stop, roll_back, shrink"):
        CollapseGuard(on_collapse="panic")
    for wrong in ({"window": 0}, {"factor": 0.0}, {"factor": 1.5}):
        with pytest.raises(ConfigError, match="give 1 or more, and more than 0 up to 1"):
            CollapseGuard(**wrong)


def test_a_verdict_says_what_was_done():
    found = Collapse(version=7, why="KL 0.08 is 8.0 times its usual 0.01", action="roll_back", rate=0.25)
    assert found.sentence == (
        "about to collapse at version 7: KL 0.08 is 8.0 times its usual 0.01; went back to the best version, with 0.25 of the "
        "learning rate"
    )
