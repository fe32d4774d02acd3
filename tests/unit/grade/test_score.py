from fractions import Fraction

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandlot.core.rubric import CheckGroup, PythonCheck, Rubric
from sandlot.grade.checks import result_of, suppressed_result
from sandlot.grade.rules import ordered, possible_points
from sandlot.grade.score import score_of

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy


@st.composite
def cases(draw):
    """A sound rubric, a value for every check (None: suppressed), and penalties."""
    number = draw(st.integers(1, 12))
    points = st.floats(-10, 10).map(lambda value: round(value, 2))
    checks = [PythonCheck(id=f"c{n}", ref="a:b", points=draw(points), gate=draw(st.integers(0, 9)) == 0) for n in range(number)]
    checks.append(PythonCheck(id="sure", ref="a:b", points=draw(st.floats(0.01, 10))))
    owner = {check.id: draw(st.sampled_from([None, "g0", "g1", "g2"])) for check in checks}
    caps = {name: draw(st.floats(0.01, 20)) for name in ("g0", "g1", "g2")}
    groups = tuple(
        CheckGroup(id=name, cap=cap, checks=tuple(check for check, group in owner.items() if group == name))
        for name, cap in caps.items()
    )
    low = draw(st.sampled_from([0.0, -1.0, -100.0]))
    values = {check.id: draw(st.sampled_from([None, 0.0, 0.25, 1 / 3, 1.0, 1.0, 1.0])) for check in checks}
    penalties = draw(st.dictionaries(st.sampled_from(["p", "q"]), st.floats(0, 5)))
    return Rubric(checks=tuple(checks), groups=groups, clip=(low, 1.0)), values, penalties


def results_of(rubric, values):
    return {
        check.id: suppressed_result(check, "") if values[check.id] is None else result_of(check, values[check.id])
        for check in rubric.checks
    }


def twin(rubric, values, penalties):
    """The same in exact fractions, written as one would explain it."""
    earned_total = possible_total = Fraction(0)
    for group in (*rubric.groups, None):
        members = [
            check
            for check in rubric.checks
            if (check.id in group.checks if group else not any(check.id in other.checks for other in rubric.groups))
        ]
        earned = sum((Fraction(check.points * (values[check.id] or 0.0)) for check in members), Fraction(0))
        possible = sum((Fraction(check.points) for check in members if check.points > 0), Fraction(0))
        earned_total += min(earned, Fraction(group.cap)) if group else earned
        possible_total += min(possible, Fraction(group.cap)) if group else possible
    earned_total -= sum((Fraction(lost) for lost in penalties.values()), Fraction(0))
    value = min(max(earned_total / possible_total, Fraction(rubric.clip[0])), Fraction(1))
    closed = [check.id for check in rubric.checks if check.gate and values[check.id] != 1.0]
    return (
        (min(earned_total, 0), possible_total, min(value, 0), closed[0])
        if closed
        else (earned_total, possible_total, value, None)
    )


@CALM
@given(cases())
def test_a_score_is_what_the_obvious_sum_says(case):
    rubric, values, penalties = case
    score = score_of(rubric, results_of(rubric, values), penalties)
    points, possible, value, gate = twin(rubric, values, penalties)
    assert abs(Fraction(score.points) - points) < 1e-9
    assert abs(Fraction(score.possible) - possible) < 1e-9
    assert abs(Fraction(score.value) - value) < 1e-9 * max(1, 1 / possible)
    assert score.gate == gate
    assert len(score.checks) == len(rubric.checks) + len(penalties)


@CALM
@given(cases())
def test_meeting_every_good_check_and_no_bad_one_is_exactly_full_marks(case):
    rubric, _, _ = case
    values = {check.id: 1.0 if check.points > 0 or check.gate else 0.0 for check in rubric.checks}
    score = score_of(rubric, results_of(rubric, values))
    if not any(check.gate and check.points < 0 for check in rubric.checks):
        assert score.value == 1.0
        assert score.points == score.possible
        assert score.passed


@CALM
@given(cases())
def test_the_denominator_never_depends_on_the_answer(case):
    rubric, values, penalties = case
    assert score_of(rubric, results_of(rubric, values), penalties).possible == possible_points(rubric)


@CALM
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(
            st.permutations(range(n)), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30)
        )
    )
)
def test_every_check_comes_after_what_it_requires_and_otherwise_in_the_authors_order(case):
    order, edges = case
    requires = {n: sorted({low for low, high in edges if high == n and low < n}) for n in order}
    checks = [PythonCheck(id=str(n), ref="a:b", requires=tuple(map(str, requires[n]))) for n in order]
    placed = [int(check.id) for check in ordered(checks)]
    assert sorted(placed) == sorted(order)
    assert all(placed.index(low) < placed.index(n) for n in order for low in requires[n])
    if not any(requires.values()):
        assert placed == list(order)
