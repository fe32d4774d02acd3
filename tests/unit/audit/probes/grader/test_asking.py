"""Answers are graded once each, and only one of them where no check reads the answer."""

import pytest

from sandlot.audit.case import regrade_changed
from sandlot.audit.finding import Layer
from sandlot.audit.layers import AuditSelection, run_probes
from sandlot.audit.probes.grader.asking import Question, ask, find_solved_tasks
from sandlot.audit.probes.panel import GRADER as PROBES
from sandlot.core.errors import HarnessError
from sandlot.core.trace import FileRecord
from sandlot.core.types import digest
from sandlot.observe.events import ignore_event
from worlds.subjects import ToySubject, case_of, sums

ANSWERS = ("1", "2", "one", "")


def done(_evidence, _task) -> float:
    return 1.0


async def asked(subject: ToySubject, *, answers=ANSWERS):
    """The answers graded for one solved task, and how many gradings that took."""
    case = await case_of(subject)
    target = (await find_solved_tasks(case, 4))[0]
    before = len(subject.graded)
    graded = await ask(case, [Question(target, "any", answer, solved=solved) for solved in (True, False) for answer in answers])
    return graded, len(subject.graded) - before


async def test_answers_that_a_check_reads_are_all_graded():
    graded, gradings = await asked(ToySubject(done, sums(2)))
    assert gradings == 2 * len(ANSWERS)
    assert [each.question.answer for each in graded] == [*ANSWERS, *ANSWERS]


async def test_of_answers_that_no_check_reads_one_is_graded_for_each_evidence():
    subject = ToySubject(lambda evidence, _task: float(evidence.state), sums(2), done=lambda _: 1, start=lambda _: 0,
                         reads_answer=lambda: False)  # fmt: skip
    graded, gradings = await asked(subject)
    assert gradings == 2
    assert [each.reward for each in graded] == [1.0] * len(ANSWERS) + [0.0] * len(ANSWERS)


@pytest.mark.parametrize("reading", ["golden", "idle"])
async def test_an_answer_read_of_either_evidence_is_graded_each_time(reading):
    subject = ToySubject(done, sums(2), reads_answer=lambda: (subject.graded[-1].evidence.answer == "") == (reading == "idle"))
    _, gradings = await asked(subject)
    assert gradings == 2 * len(ANSWERS)


async def test_if_the_one_answer_was_read_after_all_the_others_are_graded():
    subject = ToySubject(done, sums(1), reads_answer=lambda: len(subject.graded) > 2)  # not in golden and idle, but later
    _, gradings = await asked(subject)
    assert gradings == 2 * len(ANSWERS)


async def test_odd_answers_that_no_check_reads_take_a_few_gradings_and_the_report_says_so():
    wanted = AuditSelection(frozenset({Layer.GRADER}), frozenset({"odd-answers"}))

    async def report_of(subject: ToySubject):
        layers, findings = await run_probes(await case_of(subject), PROBES, wanted, ignore_event)
        assert not findings
        return next(probe for layer in layers for probe in layer.probes)

    read = await report_of(ToySubject(done, sums(2)))
    unread = await report_of(ToySubject(done, sums(2), reads_answer=lambda: False))
    assert read.trials > 200
    assert read.why == ""
    assert unread.trials == 2  # one answer to each of two tasks
    assert unread.why == f"no check reads the answer, so {read.trials - unread.trials:,} answers were not graded"


async def test_failures_of_a_grader_that_reads_no_answer_are_counted_by_grading():
    def shaky(_evidence, _task) -> float:
        if len(subject.graded) > 4:  # after golden and idle of both tasks
            raise KeyError("gone")
        return 1.0

    subject = ToySubject(shaky, sums(2), reads_answer=lambda: False)
    probe = next(each for each in PROBES if each.name == "odd-answers")
    [found] = await probe.run(await case_of(subject))
    assert "(2 of 2 tried)" in found.title


async def test_evidence_whose_bytes_were_not_returned_is_not_graded_again():
    subject = ToySubject(done, sums(1))
    case = await case_of(subject)
    golden = (await case.golden())["sum-0"]
    file = FileRecord(size=1, blob=digest(b"x"))
    whole = regrade_changed(golden, {digest(b"x"): b"x"}, files={"/a": file, "/b": FileRecord(size=10**9, blob=None)})
    assert [trial.passed for trial in await case.take([whole])] == [True]
    with pytest.raises(HarnessError, match="`sum-0` leaves more bytes"):
        await case.take([whole, regrade_changed(golden, files={"/a": file})])
