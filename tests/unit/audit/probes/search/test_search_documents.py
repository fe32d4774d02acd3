"""Documents with values changed, rows left out or nothing in them: what the task asks for must matter."""

import csv
import io
import json

import pytest

from drive.in_process import case_of
from sandlot import Environment, Task
from sandlot.audit.finding import Confidence
from sandlot.audit.probes.search.documents import document_edits
from sandlot.audit.probes.search.written import _look_at_documents

TABLE = "id,units\nA-17,12\nB-29,30\nC-41,55\n"


def kinds(text, others=()):
    return {(edit.kind, edit.name) for edit in document_edits(text, list(others))}


def test_a_table_loses_rows_and_its_cells_change():
    found = kinds(TABLE, ["id,units\nC-1,5\nD-2,6\n"])
    assert ("without its last row", "") in found
    assert ("without its rows", "") in found
    assert ("ten times as much", "units") in found
    assert ("with rows of another task", "") in found
    edits = {edit.kind: edit for edit in document_edits(TABLE, [])}
    assert edits["with its first row only"].lost == ("B-29", "30", "C-41", "55")
    assert list(csv.reader(io.StringIO(edits["without its last row"].text))) == [["id", "units"], ["A-17", "12"], ["B-29", "30"]]


def test_json_loses_fields_and_elements():
    text = json.dumps({"total": 120, "paid": True, "rows": [{"id": "A-17"}, {"id": "B-29"}]})
    found = kinds(text)
    assert {
        ("left out", "total"),
        ("with the other sign", "total"),
        ("reversed", "paid"),
        ("with every row twice", "rows"),
    } <= found
    assert all(json.loads(edit.text) != json.loads(text) for edit in document_edits(text, []) if edit.text.strip())


def test_lines_of_name_and_value():
    found = kinds("Total: 120\nOwner: Ann Smith\n")
    assert {("left out", "Owner"), ("ten times as much", "Total"), ("replaced by nonsense", "Owner")} <= found


@pytest.mark.parametrize("text", ["", "   ", "x" * 100_000])
def test_nothing_and_too_much_are_left_alone(text):
    assert document_edits(text, []) == []


def reports(paid):
    """Golden answers with a document of two values, both of which the prompt asks for."""

    def make() -> Environment:
        env = Environment("reports")

        @env.tasks
        def tasks(rng):
            for number in range(3):
                key = {"total": 120 + 11 * number, "owner": f"A-{17 + number}"}
                yield Task(f"r-{number}", prompt="Reply with JSON that has `total` and `owner`.", key=key)

        @env.check(points=1)
        def right(evidence, task) -> bool:
            try:
                return paid(json.loads(evidence.answer), task.key)
            except ValueError:
                return False

        @env.solution
        async def solve(agent, task) -> None:
            await agent.say(json.dumps(task.key))

        return env

    return make


async def test_a_field_that_is_asked_for_and_not_read():
    findings = await _look_at_documents(await case_of(reports(lambda said, key: said.get("total") == key["total"])))
    assert {(each.code, each.standing) for each in findings} == {
        ("D02.left-out", Confidence.CONFIRMED),
        ("D02.changed", Confidence.CONFIRMED),
    }
    assert all("`owner`" in each.title for each in findings)


async def test_a_sign_that_is_not_read():
    (finding,) = await _look_at_documents(
        await case_of(reports(lambda said, key: said["owner"] == key["owner"] and abs(said["total"]) == key["total"]))
    )
    assert "with the other sign" in finding.title
    assert finding.reason is not None


async def test_a_grader_that_reads_all_of_it_is_not_blamed():
    assert await _look_at_documents(await case_of(reports(lambda said, key: said == key))) == []
