"""Spans: a whole tree for every rollout of a real run, and a receiver that fails in any way never harms the run."""

import socket
import threading
from pathlib import Path

import pytest

import sandlot
from drive.command_line import NOTES
from fakes.otlp_receiver import Receiver, Span, receiving
from sandlot.core.errors import ConfigError
from sandlot.observe import otel
from sandlot.observe.events import RolloutBegan, RunBegan, RunEnded, ToolCalled, TurnTaken
from sandlot.observe.otel import SpanExporter, export_spans

BEGAN = RunBegan(run="r", path="p", environment="e", model="openai:m@u", num_tasks=1, num_planned=1, num_done=0)
AT = {"run": "r", "task": "t", "rollout": 0}


def play(tmp_path: Path, spans: SpanExporter, rollouts: int = 16) -> sandlot.Run:
    return sandlot.run(NOTES, "scripted:golden", rollouts=rollouts, runs=tmp_path, sink=spans.receive)


def kinds(spans: list[Span]) -> list[str]:
    return [span.name.split()[0] for span in sorted(spans, key=lambda span: span.start)]


def run_span(receiver: Receiver) -> Span:
    assert receiver.wrong == []
    (root,) = receiver.roots()
    return root


def test_a_receiver_holds_the_whole_tree_of_every_rollout(tmp_path: Path) -> None:
    with receiving() as receiver:
        with export_spans(receiver.url) as spans:
            run = play(tmp_path, spans)
        root = run_span(receiver)
    assert (spans.num_sent, spans.num_lost, spans.problem) == (len(receiver.spans), 0, None)
    assert root.name == "run notes"
    rows = {f"rollout {row.task}/{row.rollout}": row for row in run.rows}
    assert {span.name for span in root.children} == set(rows)
    for rollout in root.children:
        row = rows[rollout.name]
        assert (rollout.about["sandlot.score"], rollout.about["sandlot.end"], rollout.failed) == (row.score, row.end, False)
        *turns, grade = sorted(rollout.children, key=lambda span: span.start)
        assert [turn.name for turn in turns] == [f"turn {number + 1}" for number in range(row.turns)]
        assert grade.name == "grade"
        assert kinds([call for turn in turns for call in turn.children]) == [
            "chat",
            "execute_tool",
            "chat",
            "execute_tool",
            "chat",
        ]
        tools = [span for turn in turns for span in turn.children if span.name.startswith("execute_tool")]
        assert [span.about["gen_ai.tool.name"] for span in tools] == ["look", "write_note"]
        for turn in turns:
            assert turn.start == min(span.start for span in turn.children)
            assert turn.end == max(span.end for span in turn.children)
            assert rollout.start <= turn.start <= turn.end <= rollout.end
            chat = turn.children[0].about
            assert (chat["gen_ai.operation.name"], chat["gen_ai.request.model"]) == ("chat", "scripted:golden")
            assert chat["gen_ai.provider.name"] == "scripted"
            assert chat["gen_ai.response.finish_reasons"] in (["calls"], ["stop"])


def test_nothing_of_prompts_answers_and_tools_is_sent(tmp_path: Path) -> None:
    with receiving() as receiver:
        with export_spans(receiver.url) as spans:
            play(tmp_path, spans, 8)
        run_span(receiver)
    said = repr(list(receiver.spans.values()))
    assert not [word for word in ("river", "candle", "market", "velvet", "You keep notes", "writes so far") if word in said]


def test_a_failed_rollout_says_the_side_and_the_kind_and_not_the_message(tmp_path: Path) -> None:
    world = tmp_path / "broken.py"
    world.write_text(NOTES.read_text().replace('return evidence.state["writes"] == 1', 'raise RuntimeError("secret words")'))
    with receiving() as receiver:
        with export_spans(receiver.url) as spans:
            sandlot.run(world, "scripted:golden", rollouts=1, runs=tmp_path, sink=spans.receive)
        (rollout,) = run_span(receiver).children
    assert rollout.failed
    assert (rollout.about["sandlot.side"], rollout.about["error.type"]) == ("grader", "crash")
    assert "secret words" not in repr(receiver.spans)


def test_a_run_that_is_cut_off_still_sends_whole_trees() -> None:
    with receiving() as receiver:
        with export_spans(receiver.url) as spans:
            spans.receive(BEGAN)
            spans.receive(RolloutBegan(**AT))
            spans.receive(TurnTaken(**AT, turn=1, prompt_tokens=3, completion_tokens=2, seconds=0.0, stop="calls"))
            spans.receive(ToolCalled(**AT, turn=1, name='\x1b[31m"\n' * 999, seconds=0.0, error=True))
            spans.receive(RolloutBegan(**AT, attempt=2))
            spans.receive(TurnTaken(**AT, turn=1, prompt_tokens=3, completion_tokens=2, seconds=0.0))
        (rollout,) = run_span(receiver).children
    assert spans.num_lost == 0
    assert rollout.about["sandlot.outcome"] == "cancelled"
    assert kinds(rollout.children) == ["turn", "turn"]
    (tool,) = [span for span in receiver.spans.values() if span.name.startswith("execute_tool")]
    assert tool.failed
    assert tool.name.isprintable()
    assert len(tool.name) <= 200


def test_an_evaluation_is_part_of_its_training() -> None:
    with receiving() as receiver:
        with export_spans(receiver.url) as spans:
            spans.receive(BEGAN)
            spans.receive(RunBegan(run="r-eval", path="p", environment="e", model="m", num_tasks=1, num_planned=1, num_done=0))
            spans.receive(RunEnded(run="r-eval"))
            spans.receive(RunEnded(run="r"))
        assert [span.about["sandlot.run"] for span in run_span(receiver).children] == ["r-eval"]


def test_a_receiver_that_is_down_costs_only_the_spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel, "_PAUSES_S", (0.0, 0.0))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with export_spans(f"http://127.0.0.1:{port}") as spans:
        run = play(tmp_path, spans)
    assert run.summary().scored == 16
    assert spans.num_sent == 0
    assert spans.num_lost == 1 + 16 * 10
    assert "ConnectionRefusedError" in (spans.problem or "")


@pytest.mark.parametrize(("status", "requests"), [(500, 1), (404, 1), (503, 2), (429, 2), (302, 1)])
def test_a_receiver_that_refuses_is_asked_again_only_where_that_may_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, requests: int
) -> None:
    monkeypatch.setattr(otel, "_PAUSES_S", (0.0, 0.0))
    with receiving(lambda _number: (status, b"<html>" * 100)) as receiver:
        with export_spans(receiver.url) as spans:
            spans.receive(BEGAN)
        assert receiver.num_requests == requests
    assert (spans.num_sent, spans.num_lost, spans.problem) == (0, 1, f"HTTP {status}")


def test_a_receiver_that_recovers_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel, "_PAUSES_S", (0.0, 0.0, 0.0))
    with receiving(lambda number: (503, b"") if number < 3 else (200, b"")) as receiver:
        with export_spans(receiver.url) as spans:
            spans.receive(BEGAN)
        run_span(receiver)
    assert (spans.num_sent, spans.num_lost) == (1, 0)


def test_a_receiver_that_never_answers_delays_neither_the_run_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otel, "_END_S", 0.2)
    asked, released = threading.Event(), threading.Event()

    def hang(_number: int) -> tuple[int, bytes]:
        asked.set()
        released.wait(15)
        return 200, b""

    with receiving(hang) as receiver:
        with export_spans(receiver.url) as spans:
            spans.receive(BEGAN)
            spans.receive(RunEnded(run="r"))
            assert asked.wait(15)  # a request hangs from here on
            run = play(tmp_path, spans)
            assert run.summary().scored == 16
            assert not released.is_set()
        assert spans.num_sent == 0
        assert spans.num_lost == 1 + 1 + 16 * 10
        released.set()


def test_more_spans_than_may_wait_are_dropped_by_whole_rollouts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(otel, "_MOST_WAITING", 25)
    monkeypatch.setattr(otel, "_PAUSES_S", (0.0,))
    gate = threading.Event()

    def wait(_number: int) -> tuple[int, bytes]:
        gate.wait(15)
        return 200, b""

    with receiving(wait) as receiver:
        with export_spans(receiver.url) as spans:
            play(tmp_path, spans)
            gate.set()
        assert receiver.wrong == []
        rollouts = [span for span in receiver.spans.values() if span.name.startswith("rollout")]
    assert spans.num_sent + spans.num_lost == 1 + 16 * 10
    assert spans.num_lost > 0
    assert "waited" in (spans.problem or "")
    for rollout in rollouts:
        assert len([span for span in receiver.spans.values() if span.parent == rollout.id]) == 4


def test_what_a_receiver_rejects_is_counted() -> None:
    reply = b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}'
    with receiving(lambda _number: (200, reply)) as receiver, export_spans(receiver.url) as spans:
        spans.receive(BEGAN)
    assert (spans.num_sent, spans.num_lost, spans.problem) == (0, 1, "too old")


def test_headers_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, x-more=1")
    with receiving() as receiver, export_spans(f"{receiver.url}/v1/traces") as spans:
        spans.receive(BEGAN)
    assert (receiver.headers[0]["x-key"], receiver.headers[0]["x-more"]) == ("a b", "1")
    assert receiver.wrong == []


@pytest.mark.parametrize("url", ["", "localhost:4318", "ftp://host", "http://", "http://host:0", "http://host:x", "http://["])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="write an address such as"), export_spans(url):
        pytest.fail("it started")


def test_a_header_that_would_break_a_request_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%0d%0aevil: 1")
    with pytest.raises(ConfigError, match="no header may hold"), export_spans("http://127.0.0.1:4318"):
        pytest.fail("it started")


def test_a_host_that_cannot_exist_costs_only_the_spans() -> None:
    with export_spans("http://a..b:4318") as spans:
        spans.receive(BEGAN)
    assert spans.num_lost == 1
    assert spans.problem


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_HEADERS") as refused, export_spans("http://me:hush@host:4318"):
        pytest.fail("it started")
    assert "hush" not in str(refused.value)
