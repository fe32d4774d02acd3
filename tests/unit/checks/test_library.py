import inspect

import pytest

from sandlot.checks import LIBRARY
from sandlot.core.errors import NotInEvidence
from sandlot.core.trace import FileRecord

FILES = {
    "/a.txt": b" hello World \n",
    "/v.json": b'{"total": 12.5, "rows": [{"id": 1, "ok": true}], "big": 1' + b"0" * 400 + b', "half": "\\ud800", "nan": NaN}',
    "/t.csv": b"id,amount\r\n1,2\r\n3,4\r\n",
    "/bad.json": b"{",
    "/deep.json": b"[" * 100_000,
    "/bin": b"\xff",
}


@pytest.mark.parametrize(
    ("name", "args", "met"),
    [
        ("file_exists", {"path": "/a.txt"}, True),
        ("file_exists", {"path": "/b.txt"}, False),
        ("file_absent", {"path": "/b.txt"}, True),
        ("file_absent", {"path": "/a.txt"}, False),
        ("file_equals", {"path": "/a.txt", "text": "hello World"}, True),
        ("file_equals", {"path": "/a.txt", "text": "hello World", "strip": False}, False),
        ("file_contains", {"path": "/a.txt", "text": "world"}, False),
        ("file_contains", {"path": "/a.txt", "text": "world", "ignore_case": True}, True),
        ("json_value", {"path": "/v.json", "at": "total", "value": 12.5}, True),
        ("json_value", {"path": "/v.json", "at": "total", "value": 12.6, "tolerance": 0.2}, True),
        ("json_value", {"path": "/v.json", "at": "rows.0", "value": {"id": 1, "ok": True}}, True),
        ("json_value", {"path": "/v.json", "at": "rows.0", "value": {"id": 1, "ok": 1}}, False),
        ("json_value", {"path": "/v.json", "at": "rows", "value": []}, False),
        ("json_value", {"path": "/v.json", "at": "big", "value": 1.5}, False),
        ("json_value", {"path": "/v.json", "at": "half", "value": "x"}, False),
        ("json_value", {"path": "/v.json", "at": "nan", "value": 1, "tolerance": 5}, False),
        ("csv_rows", {"path": "/t.csv", "rows": 2, "columns": ["amount"]}, True),
        ("csv_rows", {"path": "/t.csv", "rows": 3}, False),
        ("csv_rows", {"path": "/t.csv", "columns": ["tax"]}, False),
        ("answer_equals", {"text": "the total is \uff11\uff12"}, True),
        ("answer_equals", {"text": "12"}, False),
        ("answer_number", {"value": 12}, True),
        ("answer_number", {"value": 12.4, "tolerance": 0.5}, True),
        ("answer_number", {"value": 13}, False),
        ("answer_matches", {"pattern": r"total is \d+"}, True),
        ("answer_matches", {"pattern": r"^\d+$"}, False),
        ("state_equals", {"at": "tickets.7.status", "value": "closed"}, True),
        ("state_equals", {"at": "tickets.7.status", "value": "open"}, False),
        ("tool_called", {"tool": "refund"}, True),
        ("tool_called", {"tool": "refund", "where": {"amount": 5}}, True),
        ("tool_called", {"tool": "refund", "where": {"amount": "5"}}, False),
        ("tool_called", {"tool": "refund", "at_least": 2}, False),
        ("tool_not_called", {"tool": "query"}, True),
        ("tool_not_called", {"tool": "refund"}, False),
        ("max_calls", {"at_most": 1}, True),
        ("max_calls", {"at_most": 0, "tool": "refund"}, False),
        ("max_calls", {"at_most": 0, "tool": "query"}, True),
    ],
)
def test_built_in_checks(name, args, met, evidence_of, call_of):
    evidence = evidence_of(
        FILES, answer=" The  total is 12. ", state={"tickets": {"7": {"status": "closed"}}}, calls=(call_of("refund", amount=5),)
    )
    value, text = LIBRARY[name](evidence, **args)
    assert value is met
    assert text


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("file_equals", {"path": "/none", "text": ""}),
        ("file_contains", {"path": "/bin", "text": ""}),
        ("json_value", {"path": "/bad.json", "at": "a", "value": 1}),
        ("json_value", {"path": "/deep.json", "at": "a", "value": 1}),
        ("json_value", {"path": "/v.json", "at": "rows.9", "value": 1}),
        ("csv_rows", {"path": "/none"}),
        ("state_equals", {"at": "a.b", "value": 1}),
        ("unchanged", {"path": "/a.txt"}),
    ],
)
def test_what_is_not_there_is_not_in_evidence(name, args, evidence_of):
    with pytest.raises(NotInEvidence):
        LIBRARY[name](evidence_of(FILES), **args)


@pytest.mark.parametrize(
    ("answer", "met"),
    [("1,204.50", True), ("$1,204.5!", True), ("1204.5 (that is 1204.50)", True), ("1204.5 or 7", False), ("none", False),
     ("x1204.5", False), ("\u22121204.5", False), ("1e9999", False), ("9" * 5000, False)],
)  # fmt: skip
def test_the_number_in_an_answer(answer, met, evidence_of):
    assert LIBRARY["answer_number"](evidence_of(answer=answer), value=1204.5)[0] is met


def test_a_pattern_that_can_take_forever_is_refused(evidence_of):
    for pattern in ("(a+)+$", "(?:a*b?)*c", "(", "([a-z]+\\d*){2,}"):
        with pytest.raises(ValueError):
            LIBRARY["answer_matches"](evidence_of(answer="a" * 100), pattern=pattern)


def test_a_pattern_sees_a_bounded_piece_of_the_answer(evidence_of):
    assert LIBRARY["answer_matches"](evidence_of(answer="start" + "x" * 1_000_000 + "end"), pattern="^start")[0] is False
    assert LIBRARY["answer_matches"](evidence_of(answer="start" + "x" * 1_000_000 + "end"), pattern="end$")[0] is True


def test_a_file_is_unchanged_if_its_bytes_are(evidence_of):
    evidence = evidence_of({"/a": b"1", "/b": b"2"})
    evidence.record.initial.update(
        {"/a": evidence.record.files["/a"], "/b": FileRecord(size=1, blob="other"), "/c": FileRecord(size=1, blob="x")}
    )
    said = {path: LIBRARY["unchanged"](evidence, path=path) for path in ("a", "/b", "/c", "/d")}
    assert {path: met for path, (met, _) in said.items()} == {"a": True, "/b": False, "/c": False, "/d": False}
    assert said["/c"][1] == "`/c` was removed"


def test_every_built_in_check_is_documented():
    assert all(inspect.getdoc(function) for function in LIBRARY.values())


KINDS = {"/was": "link", "/folder": "folder", "/pipe": "other", "/moved": "link"}


@pytest.mark.parametrize(("path", "said"), [("/was", "a link"), ("/folder", "a folder"), ("/pipe", "not a regular file")])
@pytest.mark.parametrize("name", ["file_absent", "file_exists"])
def test_what_is_no_file_is_neither_a_file_nor_absent(evidence_of, name, path, said):
    met, text = LIBRARY[name](evidence_of(FILES, kinds=KINDS), path=path)
    assert not met
    assert said in text


def test_a_file_behind_a_link_is_not_absent(evidence_of):
    evidence = evidence_of({"/elsewhere/secret": b"1"}, kinds=KINDS)
    assert LIBRARY["file_absent"](evidence, path="/moved/secret") == (False, "`/moved/secret` is a link, or below one")


@pytest.mark.parametrize("name", ["file_equals", "file_contains"])
@pytest.mark.parametrize("path", ["/was", "/folder", "/pipe"])
def test_what_is_no_file_has_no_text(evidence_of, name, path):
    with pytest.raises(NotInEvidence, match=f"`{path}` is"):
        LIBRARY[name](evidence_of(FILES, kinds=KINDS), path=path, text="")


def test_a_file_that_became_a_link_is_not_unchanged(evidence_of):
    evidence = evidence_of({}, kinds=KINDS, initial={"/was": FileRecord(size=1, blob="x")})
    assert LIBRARY["unchanged"](evidence, path="/was") == (False, "`/was` was removed")


@pytest.mark.parametrize("cut", [{"left_out": 5}, {"lost": "its memory is full"}])
@pytest.mark.parametrize("name", ["file_absent", "file_exists", "unchanged"])
def test_nothing_is_absent_in_evidence_that_is_cut(evidence_of, name, cut):
    with pytest.raises(NotInEvidence, match="not known"):
        LIBRARY[name](evidence_of(FILES, initial={"/b": FileRecord(size=1, blob="x")}, **cut), path="/b")
