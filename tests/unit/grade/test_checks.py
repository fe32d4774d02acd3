import functools
import sys
import types

import numpy as np
import pytest

from sandlot.core.errors import AuthorError, ConfigError, GradeError, NotInEvidence, SandboxError
from sandlot.core.rubric import CheckVerdict, PythonCheck
from sandlot.core.task import Task
from sandlot.grade.checks import binding, result_from, run_check, run_check_async, substitute_values

CHECK = PythonCheck(id="total", ref="checks:total", points=-4.0)
TASK = Task("t", key={"total": 7, "rows": [{"a": None}]}, data={"x": {"y": "z"}, "$": 1})


def asked(function, evidence, **args):
    return run_check(PythonCheck(id="total", ref="checks:total", args=args), function, evidence, TASK)


class Truthy:
    def __bool__(self):
        return True

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1

    def __float__(self):
        return 1.0


class Loud:
    def __repr__(self):
        raise RuntimeError("no")


class FloatLike(float):
    pass


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        (True, 1.0),
        (False, 0.0),
        (1, 1.0),
        (0, 0.0),
        (0.25, 0.25),
        (1.0, 1.0),
        (np.True_, 1.0),
        (np.float64(0.5), 0.5),
        (np.int8(1), 1.0),
    ],
)
def test_booleans_and_numbers_from_0_to_1_are_values(returned, value):
    result = result_from(CHECK, returned)
    assert (result.value, result.points, result.worth) == (value, -4.0 * value, -4.0)
    assert str(result.points) != "-0.0"
    assert result_from(CHECK, (returned, "why")).evidence == "why"


@pytest.mark.parametrize(
    "returned",
    [
        None, "yes", "", b"1", 1.5, -0.1, 2, -1, 10**400,
        float("nan"), float("inf"), np.float32("nan"), np.array([True]), [True], {},
        Truthy(), FloatLike(0.5), Loud(), (), (True,), (True, "a", "b"), (True, None), (None, "a"),
        (True, Loud()), ("yes", "a"), ((True, "a"), "b"), 1j, NotImplemented,
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_checks_name(returned):
    with pytest.raises(GradeError, match="check `total` returned") as caught:
        result_from(CHECK, returned)
    assert caught.value.kind == "bad_value"
    assert len(str(caught.value)) < 400


def test_words_for_values():
    assert [result_from(CHECK, value).verdict for value in (0, 0.5, 1)] == [
        CheckVerdict.NOT_MET,
        CheckVerdict.PARTLY,
        CheckVerdict.MET,
    ]


def test_a_long_sentence_is_cut_and_says_so():
    assert result_from(CHECK, (True, "x" * 9000)).evidence.endswith("... (9,000 characters)")


def test_a_sentence_can_always_be_written_down():
    result_from(CHECK, (True, "a\ud800")).evidence.encode()


def test_a_check_takes_what_it_wants_in_any_shape(evidence_of):
    evidence = evidence_of(answer="7")

    def whole(evidence, task, wanted):
        return evidence.answer == str(task.key["total"]) == wanted

    def swapped(task, wanted, evidence):
        return whole(evidence, task, wanted)

    def renamed(e, t, wanted):
        return whole(e, t, wanted)

    def only_positions(e, t, /, *, wanted):
        return whole(e, t, wanted)

    def passing_on(*args, **kwargs):
        return whole(*args, **kwargs)

    def only_argument(wanted="8"):
        return wanted == "7"

    def only_task(*, task, **rest):
        return task.id == "t" and rest == {"wanted": "7"}

    class Callable:
        def __call__(self, evidence, wanted):
            return evidence.answer == wanted

    for function in (
        whole,
        swapped,
        renamed,
        only_positions,
        passing_on,
        only_argument,
        only_task,
        Callable(),
        functools.partial(whole),
    ):
        assert asked(function, evidence, wanted="7").value == 1.0, function


@pytest.mark.parametrize(
    ("function", "names", "message"),
    [
        (lambda evidence: True, {"cell"}, "cell"),
        (lambda evidence, task, cell: True, set(), "cell"),
        (lambda evidence, cell: True, set(), "cell"),
        (lambda evidence, task: True, {"task"}, "named `task`"),
    ],
)
def test_arguments_that_do_not_fit_are_named(function, names, message):
    with pytest.raises(TypeError, match=message):
        binding(function, frozenset(names))


def test_what_is_not_in_evidence_is_not_met_with_its_sentence(evidence_of):
    result = asked(lambda evidence: evidence.read_text("/out") == "", evidence_of())
    assert (result.verdict, result.evidence) == (CheckVerdict.NOT_MET, "no file `/out`")


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), ZeroDivisionError(), SystemExit(0), StopIteration(), SandboxError("s"), AuthorError("a"), ConfigError("c"),
     GradeError("g", kind="timeout"), RecursionError(), GeneratorExit(), AssertionError()],
)  # fmt: skip
def test_any_error_in_a_check_is_the_graders_failure_and_names_the_check(error, evidence_of):
    def total(evidence, task):
        raise error

    with pytest.raises(GradeError, match=rf"check `total` \(.*total, line \d+\): {type(error).__name__}"):
        asked(total, evidence_of())


async def test_an_async_check_is_settled_the_same_way(evidence_of):
    async def fine(evidence):
        return True, "seen"

    async def missing(evidence):
        raise NotInEvidence("nothing")

    async def broken(evidence):
        raise SystemExit(1)

    assert (await run_check_async(CHECK, fine, evidence_of(), TASK)).evidence == "seen"
    assert (await run_check_async(CHECK, missing, evidence_of(), TASK)).verdict is CheckVerdict.NOT_MET
    with pytest.raises(GradeError, match="SystemExit"):
        await run_check_async(CHECK, broken, evidence_of(), TASK)


def test_arguments_may_name_the_tasks_key_and_data():
    args = {
        "a": "$key.total",
        "b": ["$data.x.y", {"c": "$key.rows.0.a"}],
        "d": "$5",
        "e": "$$key.total",
        "f": "x $key.total",
        "g": "$key",
    }
    assert substitute_values(args, TASK) == {
        "a": 7,
        "b": ["z", {"c": None}],
        "d": "$5",
        "e": "$key.total",
        "f": "x $key.total",
        "g": "$key",
    }


@pytest.mark.parametrize("path", ["$key.none", "$key.rows.9.a", "$key.total.x", "$data.x.y.z", "$key.rows.-1"])
def test_an_unknown_path_says_what_there_is(path, evidence_of):
    with pytest.raises(GradeError, match=r"check `total` .*task `t` has no"):
        asked(lambda evidence, a: True, evidence_of(), a=path)


@pytest.mark.parametrize("answer", [True, 0, 0.5, "yes"])
def test_a_numpy_that_another_thread_is_still_importing_changes_no_verdict(monkeypatch, answer):
    half = types.ModuleType("numpy")  # registered before its names are there, as Python's import system does it
    monkeypatch.setitem(sys.modules, "numpy", half)
    if answer == "yes":
        with pytest.raises(GradeError, match="return True, False or a number"):
            result_from(CHECK, answer)
    else:
        assert result_from(CHECK, answer).value == float(answer)
