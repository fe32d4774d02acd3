"""Lines of progress: whole ones are read, torn ones were never written, and what weights do not know is learned again."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.traces import failed
from sandlot.analysis.training_log import FILE, read_lines
from sandlot.core.errors import ConfigError
from sandlot.core.rubric import RubricScore
from sandlot.core.trace import Node, Scored, Tokens, Trace, text_message
from sandlot.core.types import Role
from sandlot.observe.training_records import Collapse, EnvironmentScore, EnvironmentStep, Learned, Measured, SeatScore, WentBack
from sandlot.train.recipe import Recipe
from sandlot.train.report.progress import TrainingProgress, summarise_step
from sandlot.train.rows import group_of
from sandlot.train.tally import Update


def step(version: int, **fields) -> Learned:
    plain = {
        "reward": 0.5, "passed": 0.5, "outcome": 0.5, "rollouts": 8, "failed": 0, "groups": 2, "informative": 2, "loss": 0.1,
        "norm": 1.0, "tokens": 40, "shared": 1.5, "kl": 0.0, "entropy": 1.0, "clipped": 0.0, "staleness": 0, "sampled": 80,
        "seconds": 2.0, "update_s": 0.5, "phases": {"model": 6.0, "tools": 1.0, "open": 2.0, "grade": 1.0},
    }  # fmt: skip
    return Learned(version=version, **plain | fields)


def rollout(number: int, value: float, *, turns: int = 1) -> Trace:
    trace = Trace(run="r", task="t", rollout=number, seed=0)
    trace.append(Node(message=text_message(Role.USER, "go")))
    tokens = Tokens(ids=bytes(4), logprobs=bytes(4), mask=b"\x01", versions=((1, 0),))
    for turn in range(turns):
        message = text_message(Role.ASSISTANT, "done")
        trace.append(Node(message=message, parent=turn, sampled=True, context=bytes(4), tokens=tokens))
    trace.outcome = Scored(RubricScore(points=value, possible=1, value=value))
    return trace


def test_only_rollouts_with_a_reward_count_in_the_figures_of_a_step():
    late, lost = rollout(2, 0.0, turns=0), rollout(3, 0.0)
    lost.outcome = failed()
    traces = [late, rollout(0, 1.0), lost, rollout(1, 0.5)]
    batch = [(group_of("t", traces, environment="e"), traces)]
    update = Update(0.1, 1.0, 2, 4, 4, 0.5, {"kl_behaviour": 0.0, "entropy": 1.0, "clipped": 0.0})
    learned = summarise_step(1, batch, update, 2.0, Recipe(name="n", env="e.py"), {"e": 1.0})
    assert (learned.reward, learned.rollouts, learned.failed) == (0.75, 4, 2)
    assert (learned.passed, learned.environments["e"].reward) == (0.5, 0.75)


def measured(version: int, mean: float = 0.5) -> Measured:
    interval = {"low": mean - 0.1, "high": mean + 0.1, "passed": mean, "passed_low": 0.0, "passed_high": 1.0}
    return Measured(version=version, mean=mean, rollouts=4, failed=0, run=f"evaluations/{version:06d}", **interval)


def test_what_was_added_is_read_back(tmp_path):
    progress = TrainingProgress(tmp_path)
    for line in (measured(0), step(1), step(2), measured(2, 0.7), WentBack(version=2, best=0)):
        progress.add(line)
    again = TrainingProgress.read(tmp_path)
    assert (again.steps, again.evaluations, again.rollbacks) == (progress.steps, progress.evaluations, progress.rollbacks)
    assert again.best is not None
    assert again.best.version == 2


def test_lines_of_steps_whose_weights_were_not_kept_are_dropped(tmp_path):
    progress = TrainingProgress(tmp_path)
    for line in (measured(0), step(1), step(2), step(3)):
        progress.add(line)
    assert [line.version for line in TrainingProgress.resume(tmp_path, 2).steps] == [1, 2]
    assert [line.version for line in read_lines(tmp_path)] == [0, 1, 2]


@settings(deadline=None)
@given(data=st.data())
def test_a_line_that_a_crash_cut_off_never_was(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("torn")
    lines = [measured(0), step(1), step(2)]
    written = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    cut = data.draw(st.integers(0, len(written)))
    (path / FILE).write_bytes(written[:cut])
    whole = written[:cut].count(b"\n")
    resumed = TrainingProgress.resume(path, 9)
    assert whole <= len(resumed.steps) + len(resumed.evaluations) <= whole + 1  # a line whole but for its end counts
    resumed.add(step(9))
    assert read_lines(path)[-1] == step(9), "what is added after a torn line can be read"


def test_shares_of_time_are_all_of_it():
    shares = step(1).shares
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares == pytest.approx({"sampling": 0.45, "environment": 0.225, "grading": 0.075, "update": 0.25})
    assert sum(step(1, phases={}, update_s=9.0).shares.values()) == pytest.approx(1.0)


def test_a_figure_that_is_not_a_number_costs_no_line(tmp_path):
    nan = float("nan")
    none_scored = Measured(
        version=1, mean=nan, low=0.0, high=1.0, passed=nan, passed_low=0.0, passed_high=1.0, rollouts=2, failed=2, run="x"
    )
    progress = TrainingProgress(tmp_path)
    progress.add(none_scored)
    progress.add(WentBack(version=1, best=0))
    again = TrainingProgress.resume(tmp_path, 1)
    assert math.isnan(again.evaluations[0].mean)
    assert again.evaluations[0].failed == 2
    assert again.rollbacks == [WentBack(version=1, best=0)]


def of_seats(version: int, **means: float) -> Measured:
    """An evaluation in which every seat but `shared...` has a policy of its own."""
    seats = {
        name: SeatScore(mean=mean, low=0.0, high=1.0, passed=0.0, policy="" if name.startswith("shared") else name)
        for name, mean in means.items()
    }
    plain = {"mean": 0.5, "low": 0.4, "high": 0.6, "passed": 0.0, "rollouts": 4, "failed": 0, "run": "evaluations"}
    return msgspec.structs.replace(measured(version), environments={"haggle": EnvironmentScore(**plain, seats=seats)})


def test_every_policy_has_its_own_best_version(tmp_path):
    lines = [of_seats(0, buyer=0.2, shared_a=0.6, shared_b=0.2), of_seats(1, buyer=0.7, shared_a=0.1, shared_b=0.3)]
    progress = TrainingProgress(tmp_path)
    for line in lines:
        progress.add(line)
    again = TrainingProgress.read(tmp_path)
    assert again.evaluations == lines
    assert (again.best_of("buyer"), again.best_of(""), again.best) == (lines[1], lines[0], lines[0])
    assert lines[0].score_of("") == pytest.approx(0.4)
    assert again.best_of("seller") is None


def test_without_a_shared_model_there_is_no_best_version_of_it(tmp_path):
    assert TrainingProgress(tmp_path, [of_seats(0, buyer=0.2, seller=0.1)]).best is None
    assert TrainingProgress(tmp_path, [of_seats(0, shared_a=0.2, shared_b=0.1)]).best is not None


def test_the_guard_judges_every_policy_by_itself(tmp_path):
    calm = [step(version) for version in range(1, 30)]
    wild = [step(version, kl=50.0 if version > 26 else 0.1, norm=100.0 if version > 26 else 1.0) for version in range(1, 30)]
    both = [msgspec.structs.replace(one, policies={"buyer": one, "seller": other}) for one, other in zip(calm, wild, strict=True)]
    progress = TrainingProgress(tmp_path, both)
    assert progress.check_collapse(20, "buyer") is None
    assert "KL 50" in (progress.check_collapse(20, "seller") or "")
    progress.add(Collapse(version=29, why="KL", action="shrink", rate=0.5, policy="seller"))
    assert progress.check_collapse(20, "seller") is None, "it was judged in this step"
    assert (progress.rate_of("buyer"), progress.rate_of("seller")) == (1.0, 0.5)
    assert "`seller` is about to collapse" in progress.collapses[-1].sentence
    progress.add(WentBack(version=29, best=3, policy="buyer"))
    assert (progress.went_back("buyer", 29), progress.went_back("seller", 29)) == (True, False)


def test_what_is_no_number_is_read_back_also_where_it_is_of_one_policy(tmp_path):
    progress = TrainingProgress(tmp_path)
    progress.add(msgspec.structs.replace(step(1), policies={"buyer": step(1, loss=math.nan, kl=None)}))
    progress.add(of_seats(1, buyer=math.nan))
    again = TrainingProgress.read(tmp_path)
    assert math.isnan(again.steps[0].policies["buyer"].loss)
    assert again.steps[0].policies["buyer"].kl is None
    assert math.isnan(again.evaluations[0].score_of("buyer"))


def test_a_seat_whose_reward_is_no_number_costs_no_line(tmp_path):
    """A seat's name may also be that of a figure that is optional."""
    rewards = {"ada": math.nan, "kl": math.nan, "bob": 1.0}
    part = EnvironmentStep(reward=math.nan, passed=0.0, rollouts=1, failed=0, groups=1, informative=1, seats=rewards)
    progress = TrainingProgress(tmp_path)
    for version in (1, 2, 3):
        progress.add(step(version, kl=None, environments={"coins": part} if version == 2 else {}))
    written = (tmp_path / FILE).read_bytes()
    again = TrainingProgress.resume(tmp_path, 3)
    assert (tmp_path / FILE).read_bytes() == written, "the same command keeps every line"
    assert [line.version for line in again.steps] == [1, 2, 3]
    assert str(again.steps[1]) == str(progress.steps[1])


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b'{"is":"rollback","version":1}', "missing required field `best`"),
        (b'{"is":"rollback","version":null,"best":0}', "Expected `int`, got `null`"),
        (b'{"is":"unknown","version":1}', "Invalid value 'unknown'"),
        (b"7", "got `int`"),
    ],
)
def test_a_whole_line_that_is_none_of_ours_is_refused_and_nothing_is_cut(tmp_path, bad, why):
    written = msgspec.json.encode(step(1)) + b"\n" + bad + b"\n"
    (tmp_path / FILE).write_bytes(written)
    with pytest.raises(ConfigError, match=why) as raised:
        TrainingProgress.resume(tmp_path, 9)
    assert f"line 2 of `{tmp_path / FILE}` cannot be read" in str(raised.value)
    assert (tmp_path / FILE).read_bytes() == written


def test_only_the_last_line_may_be_cut_off(tmp_path):
    whole = msgspec.json.encode(step(1))
    (tmp_path / FILE).write_bytes(whole[:20] + b"\n" + whole + b"\n")
    with pytest.raises(ConfigError, match="line 1 of"):
        read_lines(tmp_path)
    (tmp_path / FILE).write_bytes(whole + b"\n" + whole[:20] + b"\xff")
    assert read_lines(tmp_path) == [step(1)]
