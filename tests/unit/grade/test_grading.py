import os
import threading
import time

import anyio
import pytest

from sandlot.core.concurrency.clock import deadline
from sandlot.core.concurrency.threads import ABANDONED
from sandlot.core.errors import ConfigError, GradeError, ModelError
from sandlot.core.ports.grading import Judgement
from sandlot.core.rubric import CheckVerdict, JudgeCheck, JudgeExample, PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.grade.grading import grade, rank_of
from sandlot.grade.view import NOTE

TASK = Task("t", key={"yes": True})


def python(name, ref="e:yes", **rest):
    return PythonCheck(id=name, ref=ref, **rest)


FUNCTIONS = {"e:yes": lambda: True, "e:no": lambda: (False, "no"), "e:half": lambda: 0.5}


async def graded(checks, evidence, judge=None, functions=FUNCTIONS, **rest):
    return await grade(Rubric(checks=tuple(checks), **rest), evidence, TASK, functions.__getitem__, judge)


class FakeJudge:
    """Answers from a function of the question; counts."""

    name = "fake"

    def __init__(self, answer="yes"):
        self.answer = answer
        self.asked = []
        self.now = self.most = 0

    async def ask(self, question, choices, view, votes):
        self.now += 1
        self.most = max(self.most, self.now)
        await anyio.lowlevel.checkpoint()
        self.now -= 1
        self.asked.append((question, dict(view)))
        if isinstance(self.answer, Exception):
            raise self.answer
        given = self.answer(question) if callable(self.answer) else self.answer
        verdicts = given if isinstance(given, tuple) else (given,) * votes
        return Judgement(verdicts=verdicts, reasons=tuple(f"because {verdict}" for verdict in verdicts), prompt_digest="d")


async def test_a_score_has_points_and_evidence_for_every_check(evidence_of):
    score = await graded(
        [python("a", points=5, tags=("x",)), python("b", "e:no", points=3, tags=("x",)), python("c", "e:half", points=2)],
        evidence_of(),
    )
    assert (str(score), score.value) == ("6/10", 0.6)
    assert [check.verdict for check in score.checks] == [CheckVerdict.MET, CheckVerdict.NOT_MET, CheckVerdict.PARTLY]
    assert score.checks[1].evidence == "no"
    assert score.by_tag() == {"x": (5.0, 8.0)}


async def test_a_check_is_not_asked_if_what_it_requires_was_not_fully_met(evidence_of):
    def never():
        raise AssertionError

    checks = [
        python("c", "e:never", requires=("b",)),
        python("b", "e:never", requires=("a",)),
        python("a", "e:half"),
        python("d", requires=("a",)),
    ]
    score = await graded(checks, evidence_of(), functions=FUNCTIONS | {"e:never": never})
    assert [check.verdict for check in score.checks] == [
        CheckVerdict.SUPPRESSED,
        CheckVerdict.SUPPRESSED,
        CheckVerdict.PARTLY,
        CheckVerdict.SUPPRESSED,
    ]
    assert score.checks[0].evidence == "did not run: `b` was not met"
    assert str(score) == "0.5/4"


async def test_a_closed_gate_takes_the_whole_score_and_says_so(evidence_of):
    score = await graded([python("a", points=10), python("door", "e:half", gate=True)], evidence_of())
    assert (score.points, score.value, score.gate) == (0.0, 0.0, "door")
    assert score.checks[0].points == 10


async def test_a_closed_gate_does_not_forgive_a_debt(evidence_of):
    checks = [python("a"), python("door", "e:no", gate=True), python("bad", points=-4)]
    score = await graded(checks, evidence_of(), clip=(-1.0, 1.0))
    assert (score.value, score.points) == (-1.0, -3.0)


async def test_no_judge_is_asked_once_a_gate_is_closed(evidence_of):
    judge = FakeJudge()
    score = await graded([JudgeCheck(id="j", prompt="p"), python("door", "e:no", gate=True)], evidence_of(answer="x"), judge)
    assert judge.asked == []
    assert score.checks[0].evidence == "did not run: gate `door` was not met"


async def test_broken_constraints_cost_points_and_show_as_results(evidence_of):
    score = await graded([python("a", points=4)], evidence_of(penalties={"refund": 1.0, "again": 2.0}))
    assert (score.value, score.possible) == (0.25, 4.0)
    assert [(check.id, check.points) for check in score.checks[1:]] == [("constraint:again", -2.0), ("constraint:refund", -1.0)]


async def test_a_penalty_that_would_be_a_gift_is_refused(evidence_of):
    for points in (-1.0, float("nan")):
        with pytest.raises(GradeError, match="constraint `x`"):
            await graded([python("a")], evidence_of(penalties={"x": points}))


async def test_checks_may_be_sync_or_async_and_require_each_other_across_kinds(evidence_of):
    order = []

    def sync():
        order.append("sync")
        return True

    async def later():
        order.append("async")
        return True

    judge = FakeJudge(lambda question: order.append("judge") or "yes")
    checks = [
        python("last", "e:sync", requires=("judged",)),
        JudgeCheck(id="judged", prompt="p", requires=("later",)),
        python("later", "e:later", requires=("first",)),
        python("first", "e:sync"),
    ]
    score = await graded(checks, evidence_of(answer="x"), judge, functions={"e:sync": sync, "e:later": later})
    assert order == ["sync", "async", "judge", "sync"]
    assert score.passed


async def test_all_sync_checks_run_in_one_worker_thread_and_never_on_the_loop(evidence_of):
    threads = set()
    functions = {"e:note": lambda: threads.add(threading.get_ident()) or True}
    await graded([python(f"c{n}", "e:note") for n in range(50)], evidence_of(), functions=functions)
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_a_check_that_raises_leaves_no_score(evidence_of):
    with pytest.raises(GradeError, match=r"check `b` .*ZeroDivisionError"):
        await graded([python("a"), python("b", "e:broken")], evidence_of(), functions=FUNCTIONS | {"e:broken": lambda: 1 / 0})


async def test_the_earliest_of_several_broken_async_checks_is_named(evidence_of):
    async def broken(n):
        raise ValueError(n)

    checks = [python("a", "e:broken", args={"n": 1}), python("b", "e:broken", args={"n": 2})]
    with pytest.raises(GradeError, match="check `a`"):
        await graded(checks, evidence_of(), functions={"e:broken": broken})


async def test_a_sync_check_that_hangs_is_named_at_the_deadline_and_its_thread_counted(evidence_of):
    release = threading.Event()
    ran_after = []

    def hangs():
        release.wait(15)
        return True

    functions = FUNCTIONS | {"e:hangs": hangs, "e:after": lambda: ran_after.append(1) or True}
    name = f"{__name__}.{hangs.__qualname__}"
    checks = [python("a"), python("slow", "e:hangs"), python("after", "e:after")]
    with pytest.raises(GradeError, match=r"still running: `slow` \(.*hangs\)") as caught, deadline(1.0, GradeError, "grading"):
        await graded(checks, evidence_of(), functions=functions)
    assert caught.value.kind == "timeout"
    assert ABANDONED[name] == 1
    release.set()
    with anyio.fail_after(10):
        while ABANDONED[name]:
            await anyio.lowlevel.checkpoint()
    assert ran_after == []


async def test_an_async_check_that_hangs_is_named_at_the_deadline(evidence_of):
    with pytest.raises(GradeError, match="still running: `slow`"), deadline(1.0, GradeError, "grading"):
        await graded(
            [python("a"), python("slow", "e:hangs")], evidence_of(), functions=FUNCTIONS | {"e:hangs": anyio.sleep_forever}
        )


async def test_an_isolated_check_is_graded_like_any_other(evidence_of):
    pid = os.getpid()

    def elsewhere(evidence):
        return os.getpid() != pid and evidence.read_text("/a") == "x", "in a process of its own"

    def missing(evidence):
        return evidence.read_text("/none") == ""

    checks = [python("a", "e:elsewhere", isolate=True), python("b", "e:missing", isolate=True, requires=("a",)), python("c")]
    score = await graded(
        checks, evidence_of({"/a": b"x"}), functions=FUNCTIONS | {"e:elsewhere": elsewhere, "e:missing": missing}
    )
    assert [check.value for check in score.checks] == [1.0, 0.0, 1.0]
    assert score.checks[1].evidence.startswith("no file `/none`")


@pytest.mark.parametrize(
    ("check", "was_read"),
    [
        (lambda evidence: evidence.read_text("/a") == "x", False),
        (lambda evidence: evidence.read_text("/a") == evidence.answer, True),
        (lambda evidence: evidence.trace.num_turns > 0, True),
        (lambda: True, False),
    ],
)
@pytest.mark.parametrize("isolate", [False, True])
async def test_grading_reads_the_answer_only_if_a_check_does(evidence_of, check, was_read, isolate):
    evidence = evidence_of({"/a": b"x"}, answer="x", penalties={"late": 0.5})
    score = await graded([python("a", "e:a", isolate=isolate)], evidence, functions={"e:a": check})
    assert score.value == 0.5
    assert evidence.answer_was_read == was_read


async def test_a_judge_that_is_shown_the_answer_reads_it(evidence_of):
    evidence = evidence_of({"/a": b"x"}, answer="x")
    await graded([JudgeCheck(id="j", prompt="Right?", view=("answer",))], evidence, FakeJudge())
    assert evidence.answer_was_read


async def test_an_isolated_check_that_hangs_is_killed_and_named(evidence_of):
    before = ABANDONED.total()
    with pytest.raises(GradeError, match="still running: `slow`"), deadline(4.0, GradeError, "grading"):
        await graded([python("slow", "e:hangs", isolate=True)], evidence_of(), functions={"e:hangs": lambda: time.sleep(60)})
    assert ABANDONED.total() == before


async def test_an_isolated_check_that_kills_its_process_leaves_no_score(evidence_of):
    with pytest.raises(GradeError, match=r"check `a` .*exit code 3"):
        await graded([python("a", "e:exits", isolate=True)], evidence_of(), functions={"e:exits": lambda: os._exit(3)})


async def test_an_operators_cancelling_is_no_failure_of_the_grader(evidence_of):
    started = anyio.Event()

    async def hangs():
        started.set()
        await anyio.sleep_forever()

    errors = []

    async def grading():
        with deadline(60, GradeError, "grading"):
            try:
                await graded([python("slow", "e:hangs")], evidence_of(), functions={"e:hangs": hangs})
            except GradeError as error:
                errors.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(grading)
        await started.wait()
        group.cancel_scope.cancel()
    assert errors == []


async def test_an_unknown_reference_leaves_no_score(evidence_of):
    for ref in ("e:none", "sandlot:none"):
        with pytest.raises(GradeError, match="check `a`"):
            await graded([python("a", ref)], evidence_of())


async def test_built_in_checks_are_found_by_name(evidence_of):
    score = await grade(
        Rubric(checks=(python("a", "sandlot:answer_equals", args={"text": "$key.word"}),)),
        evidence_of(answer="Yes."),
        Task("t", key={"word": "yes"}),
        {}.__getitem__,
    )
    assert score.passed


async def test_an_unsound_rubric_is_refused(evidence_of):
    with pytest.raises(ConfigError, match="circle"):
        await graded([python("a", requires=("b",)), python("b", requires=("a",))], evidence_of())


async def test_judge_checks_without_a_judge_leave_no_score(evidence_of):
    with pytest.raises(GradeError, match="no judge is given"):
        await graded([JudgeCheck(id="j", prompt="p")], evidence_of())


async def test_a_verdict_is_worth_its_rank_and_keeps_its_reason(evidence_of):
    check = JudgeCheck(
        id="j", prompt="p", choices=("bad", "fair", "good"), points=4, examples=(JudgeExample(view="v", verdict="good"),)
    )
    judge = FakeJudge("fair")
    score = await graded([check], evidence_of(answer="x"), judge)
    result = score.checks[0]
    assert (result.points, result.verdict, result.evidence) == (2.0, CheckVerdict.PARTLY, "fair: because fair")
    assert (result.judge.model, result.judge.verdicts) == ("fake", ("fair",))
    assert judge.asked == [("p\n\nExample:\nv\nVerdict: good", {"answer": "x"})]


async def test_votes_are_settled_by_the_lower_median_and_all_recorded(evidence_of):
    check = JudgeCheck(id="j", prompt="p", votes=3)
    score = await graded([check], evidence_of(answer="x"), FakeJudge(("yes", "no", "yes")))
    assert score.checks[0].judge.verdicts == ("yes", "no", "yes")
    assert score.checks[0].evidence == "yes (2 of 3 votes): because yes"
    assert rank_of(("yes", "no"), ("no", "yes")) == 0
    assert rank_of(("good", "bad", "fair"), ("bad", "fair", "good")) == 1


@pytest.mark.parametrize("given", [("maybe",), (), ("yes", "yes")])
async def test_a_judge_that_breaks_its_contract_leaves_no_score(evidence_of, given):
    with pytest.raises(GradeError, match="check `j`: judge `fake` gave"):
        await graded([JudgeCheck(id="j", prompt="p")], evidence_of(answer="x"), FakeJudge(given))


@pytest.mark.parametrize("error", [ModelError("down", kind="rate_limit"), GradeError("odd", kind="rate_limit")])
async def test_a_judge_that_fails_is_the_graders_failure_never_a_no(evidence_of, error):
    with pytest.raises(GradeError, match="check `j`") as caught:
        await graded([JudgeCheck(id="j", prompt="p")], evidence_of(answer="x"), FakeJudge(error))
    assert caught.value.kind == "rate_limit"


async def test_a_judge_is_not_asked_about_what_is_missing_or_empty(evidence_of):
    judge = FakeJudge()
    checks = [JudgeCheck(id="file", prompt="p", view=("/out",)), JudgeCheck(id="empty", prompt="p")]
    score = await graded(checks, evidence_of(answer=" \n"), judge)
    assert judge.asked == []
    assert [check.verdict for check in score.checks] == [CheckVerdict.NOT_MET, CheckVerdict.NOT_MET]
    assert score.checks[1].evidence == "nothing to judge: `answer` is empty"


async def test_a_judge_sees_the_parts_a_check_names(evidence_of, call_of):
    judge = FakeJudge()
    check = JudgeCheck(id="j", prompt="p", view=("/a", "state", "transcript"))
    await graded([check], evidence_of({"/a": b"file"}, state={"b": 1}, answer="said", calls=(call_of("look", at=1),)), judge)
    assert judge.asked[0][1] == {
        "/a": "file",
        "state": '{\n  "b": 1\n}',
        "transcript": NOTE
        + '\n{"role": "assistant", "text": "said"}\n{"role": "assistant", "calls": "look", "arguments": {"at": 1}}',
    }


async def test_whatever_an_agent_put_into_a_call_can_be_shown_to_a_judge(evidence_of, call_of):
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    judge = FakeJudge()
    check = JudgeCheck(id="j", prompt="p", view=("transcript",))
    await graded([check], evidence_of(calls=(call_of("a", x="\ud800"), call_of("b", x=deep), call_of("c", x=2**400))), judge)
    assert judge.asked[0][1]["transcript"].splitlines()[3] == (
        '{"role": "assistant", "calls": "b", "arguments": "(arguments that cannot be shown)"}'
    )
    while deep:  # taken apart by hand: freeing it whole would recurse
        deep = deep.pop()


async def test_questions_to_the_judge_run_together_up_to_a_limit(evidence_of):
    judge = FakeJudge()
    await graded([JudgeCheck(id=f"j{n}", prompt="p") for n in range(40)], evidence_of(answer="x"), judge)
    assert (len(judge.asked), judge.most) == (40, 8)


async def test_grading_twice_gives_the_same_bytes(evidence_of):
    checks = [python(f"c{n}", "e:half", points=0.1 * n, tags=("a",)) for n in range(1, 30)]
    assert await graded(checks, evidence_of()) == await graded(checks, evidence_of())


async def test_two_hundred_checks_cost_milliseconds_of_cpu(evidence_of):
    checks = [
        python(f"c{n}", "sandlot:file_contains", args={"path": "/a", "text": "$key.x"}, requires=(f"c{n - 1}",) if n else ())
        for n in range(200)
    ]
    rubric, evidence, task = Rubric(checks=tuple(checks)), evidence_of({"/a": b"hello"}), Task("t", key={"x": "hell"})
    await grade(rubric, evidence, task, {}.__getitem__)
    begun = time.process_time()
    score = await grade(rubric, evidence, task, {}.__getitem__)
    assert score.passed
    assert time.process_time() - begun < 0.5  # CPU time, an order of magnitude above what it takes


@pytest.mark.parametrize(("record", "points"), [({"left_out": 1}, -2.0), ({}, 0.0)])
async def test_leaving_too_much_saves_no_penalty(evidence_of, record, points):
    check = python("wiped", ref="sandlot:file_exists", args={"path": "/wiped"}, points=-2)
    score = await graded([check, python("good", points=4)], evidence_of({}, **record))
    assert score.checks[0].points == points


@pytest.mark.parametrize(("record", "points"), [({"left_out": 1}, -2.0), ({}, 0.0)])
async def test_leaving_too_much_saves_no_penalty_of_the_judge(evidence_of, record, points):
    check = JudgeCheck(id="leaks", prompt="Does it leak?", view=("/leak",), points=-2)
    score = await graded([check, python("good", points=4)], evidence_of({}, **record), FakeJudge())
    assert score.checks[0].points == points
