import base64
import json
from pathlib import Path

import pytest

from builders.inspect_logs import HEADER, header, sample, write_eval, write_zstd_zip
from builders.pictures import png
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Cancelled, Failed, ImagePart, Scored
from sandlot.interop.inspect_ai import trace as trace_module
from sandlot.interop.inspect_ai.log import InspectLogReader

REAL = Path(__file__).parent / "tools.eval"
"""A log that inspect-ai 0.3.285 wrote with `mockllm/model`: one sample solved, one wrong with tool errors, one at its limit."""


def read(source):
    with InspectLogReader().open(str(source)) as logged:
        return logged, [each.trace for each in logged.rollouts]


def only(tmp_path, **fields):
    _, traces = read(write_eval(tmp_path / "log.eval", sample(**fields)))
    return traces[0]


def test_a_real_log_becomes_traces():
    logged, traces = read(REAL)
    assert (logged.environment, logged.model, logged.num_rollouts) == ("tools", "mockllm/model", 3)
    assert [tool.name for tool in logged.tools] == ["add"]
    assert [(trace.task, trace.end.value, trace.reward) for trace in traces] == [
        ("1", "done", 1.0),
        ("2", "done", 0.0),
        ("3", "turn_limit", 0.0),
    ]
    solved, wrong, _ = traces
    assert [node.message.role.value for node in solved.nodes] == ["user", "assistant", "tool", "assistant"]
    assert solved.nodes[1].message.calls[0].arguments == {"x": 1, "y": 1}
    assert solved.nodes[2].message.results[0].text == "2"
    assert (solved.usage.prompt_tokens, solved.usage.completion_tokens) == (20, 10)
    assert [node.stop for node in solved.turns()] == ["calls", "stop"]
    assert [result.error for node in wrong.nodes for result in node.message.results] == [True, True]
    assert wrong.nodes[2].message.results[0].text == "no negative numbers"


def test_a_json_log_is_read_like_an_eval_log(tmp_path):
    (tmp_path / "log.json").write_text(json.dumps(HEADER | {"samples": [sample()]}))
    write_eval(tmp_path / "log.eval", sample())
    (first_run, first), (second_run, second) = read(tmp_path / "log.json"), read(tmp_path / "log.eval")
    assert first == second
    assert (first_run.version, first_run.setting, first_run.created) == (
        second_run.version,
        second_run.setting,
        second_run.created,
    )
    assert first_run.seconds == 30.0


def test_epochs_are_rollouts_of_one_task_and_ids_stay_apart(tmp_path):
    samples = [sample(id="a b"), sample(id="a b", epoch=2), sample(id="a-b"), sample(id=7), sample(id="7")]
    _, traces = read(write_eval(tmp_path / "log.eval", *[{**each, "uuid": n} for n, each in enumerate(samples[:3])], samples[3]))
    assert [trace.key for trace in traces] == [("a-b", 0), ("a-b", 1), ("a-b-2", 0), ("7", 0)]
    (tmp_path / "log.json").write_text(json.dumps(HEADER | {"samples": samples}))
    assert [trace.key for trace in read(tmp_path / "log.json")[1]][3:] == [("7", 0), ("7-2", 0)]


# -- a failure is never a reward ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "side"),
    [
        ([], "environment"),
        ([{"event": "model", "error": "503"}], "model"),
        ([{"event": "model", "error": "503"}, {"event": "model"}], "environment"),
        ([{"event": "model"}, {"event": "span_begin", "type": "scorers"}], "grader"),
        ([{"event": "span_begin", "type": "scorers"}, {"event": "model", "error": "the judge is away"}], "grader"),
    ],
)
def test_an_error_is_a_failure_of_the_side_that_broke_even_if_there_is_a_score(tmp_path, events, side):
    trace = only(tmp_path, error={"message": "it broke"}, events=events)
    assert trace.outcome == Failed(side=side, kind="crash", message="it broke")
    assert (trace.end.value, trace.reward) == ("cut", None)


def test_a_sample_without_a_score_has_no_reward(tmp_path):
    for scores in (None, {}, {"match": {"value": None}}):
        assert only(tmp_path, scores=scores).outcome.kind == "no_score"
    assert only(tmp_path, scores={"match": {"value": "fine"}}).outcome.kind == "bad_value"


def test_nan_is_no_score_and_nan_in_text_stays(tmp_path):
    text = json.dumps(sample(scores={"match": {"value": float("nan")}}, target='say "NaN" \\"NaN'))
    assert "NaN" in text
    write_zstd_zip(
        tmp_path / "log.eval", [("header.json", json.dumps(HEADER).encode()), ("samples/1_epoch_1.json", text.encode())]
    )
    (trace,) = read(tmp_path / "log.eval")[1]
    assert trace.outcome.kind == "no_score"
    assert trace.evidence.state["target"] == 'say "NaN" \\"NaN'


def test_what_a_person_stopped_or_declared_invalid_is_cancelled(tmp_path):
    assert isinstance(only(tmp_path, limit={"type": "operator", "limit": 1}).outcome, Cancelled)
    assert isinstance(only(tmp_path, invalidation={"author": "me"}).outcome, Cancelled)
    write_eval(tmp_path / "log.eval", sample(scores={}), head={**HEADER, "status": "cancelled"})
    assert isinstance(read(tmp_path / "log.eval")[1][0].outcome, Cancelled)


def test_limits_are_ends_that_are_graded(tmp_path):
    ends = {"message": "turn_limit", "token": "token_limit", "working": "time_limit", "new kind": "turn_limit"}
    for kind, end in ends.items():
        trace = only(tmp_path, limit={"type": kind, "limit": 1})
        assert isinstance(trace.outcome, Scored)
        assert trace.end.value == end


def test_an_eval_that_did_not_end_is_read_from_its_journal(tmp_path):
    began = {key: value for key, value in HEADER.items() if key in {"version", "eval", "plan"}}
    entries = [("_journal/start.json", json.dumps(began).encode()), ("samples/1_epoch_1.json", json.dumps(sample()).encode())]
    logged, traces = read(write_zstd_zip(tmp_path / "log.eval", entries))
    assert len(traces) == 1
    assert "the status of the log is `started`" in logged.notes


def test_one_scorer_and_another_scale_can_be_named(tmp_path):
    scores = {"match": {"value": "C"}, "points": {"value": 5}}
    path = write_eval(tmp_path / "log.eval", sample(scores=scores))
    assert read(f"{path}?scorer=match")[1][0].reward == 1.0
    assert read(f"{path}?scorer=points&score=0..10")[1][0].reward == 0.5
    assert read(f"{path}?scorer=none")[1][0].outcome.kind == "no_score"
    for wrong in ("?score=10", "?score=3..1", "?scale=1"):
        with pytest.raises(ConfigError):
            read(f"{path}{wrong}")
    with pytest.raises(ConfigError, match="gave 5, which is no share"):
        read(path)


# -- images and attachments --------------------------------------------------------------------------------------------


def images_of(tmp_path, address, **fields):
    content = [{"type": "text", "text": "see"}, {"type": "image", "image": address}, {"type": "audio", "audio": "x"}]
    trace = only(tmp_path, messages=[{"role": "user", "content": content}], **fields)
    return trace.nodes[0].message.parts[1]


def test_an_image_is_stored_and_nothing_is_fetched(tmp_path):
    data = png(2, 3)
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    part = images_of(tmp_path, "attachment://abc", attachments={"abc": url})
    assert isinstance(part, ImagePart)
    assert (part.width, part.height) == (2, 3)
    with InspectLogReader().open(str(tmp_path / "log.eval")) as logged:
        assert next(logged.rollouts).blobs == (data,)
    assert images_of(tmp_path, "/etc/passwd").text == "[image: /etc/passwd]"
    assert images_of(tmp_path, "http://localhost/x.png").text == "[image: http://localhost/x.png]"
    assert "cannot be shown" in images_of(tmp_path, "data:image/png;base64,AAAA").text
    assert "cannot be shown" in images_of(tmp_path, "data:image/png;base64,%%%%").text


def test_one_attachment_used_many_times_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_module, "_MAX_ATTACHED_CHARS", 10_000)
    messages = [{"role": "user", "content": "attachment://a"}] * 11
    with pytest.raises(ConfigError, match=r"sample 1: its attachments are used for more than 10,000 characters"):
        only(tmp_path, messages=messages, attachments={"a": "x" * 1000})


# -- hostile logs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"messages": "hello"}, "Expected `array`, got `str`"),
        ({"messages": [{"role": "root", "content": "x"}]}, "unknown role 'root'"),
        ({"messages": [{"role": "user", "content": {"a": 1}}]}, r"content"),
        ({"epoch": 0}, "its epoch is 0"),
        ({"epoch": -(2**62)}, "epochs count from 1"),
        ({"epoch": 1.5}, "Expected `int`"),
        ({"id": None}, "id"),
        ({"id": {"a": 1}}, "id"),
        ({"events": ["x"]}, "an event cannot be read"),
        ({"events": [{"event": "model", "output": 3}]}, "a model call cannot be read"),
        ({"attachments": {"a": 1}}, "attachments"),
        ({"scores": {"match": "C"}}, "scores"),
    ],
)
def test_wrong_types_are_named(tmp_path, fields, said):
    with pytest.raises(ConfigError, match=said):
        only(tmp_path, **fields)


def test_absurd_numbers_do_not_reach_the_store(tmp_path):
    usage = {"input_tokens": 10**30, "output_tokens": -5, "total_cost": 1e300}
    said = sample()["messages"][1]
    call = {"event": "model", "timestamp": "9999-99-99", "working_time": 1e300, "output": {"usage": usage}}
    call["output"]["choices"] = [{"message": said, "stop_reason": "stop"}]
    trace = only(tmp_path, events=[call], total_time=-1e300, started_at="yesterday")
    assert (trace.usage.prompt_tokens, trace.usage.completion_tokens, trace.usage.usd) == (2**40, 0, 0.0)
    assert (trace.started, sum(trace.phases.values())) == (0.0, 0.0)


def test_deep_nesting_is_an_error_and_no_crash(tmp_path):
    deep = b'{"id": 1, "epoch": 1, "metadata": ' + b'{"a":' * 200_000 + b"1" + b"}" * 200_001
    entries = [("header.json", json.dumps(HEADER).encode()), ("samples/1_epoch_1.json", deep)]
    with pytest.raises(ConfigError):
        read(write_zstd_zip(tmp_path / "log.eval", entries))


def test_names_in_the_archive_are_never_paths(tmp_path):
    entries = [("header.json", json.dumps(HEADER).encode())]
    entries += [
        (f"samples/{name}_epoch_1.json", json.dumps(sample(id=name)).encode()) for name in ("../../x", "/etc/x", "a\x1b[2J")
    ]
    _, traces = read(write_zstd_zip(tmp_path / "log.eval", entries))
    assert [trace.task for trace in traces] == ["x", "etc-x", "a-2J"]


def test_a_model_and_a_task_with_escapes_in_their_names_are_made_printable(tmp_path):
    logged, _ = read(write_eval(tmp_path / "log.eval", sample(), head=header(task="../\x1b[2J", model="\x1b[2Jgpt\n")))
    assert logged.environment == "2J"
    assert logged.model == "\\x1b[2Jgpt"


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ({**HEADER, "version": 1}, "log of version 1, and 2 is read"),
        ({"version": 2}, "eval"),
        (header(task=3), "task"),
        ([], "Expected `object`"),
    ],
)
def test_a_wrong_header_is_named(tmp_path, head, said):
    entries = [("header.json", json.dumps(head).encode())]
    with pytest.raises(ConfigError, match=said):
        read(write_zstd_zip(tmp_path / "log.eval", entries))


def test_other_archives_and_chunked_samples_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"neither `header\.json` nor"):
        read(write_zstd_zip(tmp_path / "a.eval", [("x.json", b"{}")]))
    entries = [("header.json", json.dumps(HEADER).encode()), ("samples/1_epoch_1/sample.json", b"{}")]
    with pytest.raises(ConfigError, match="chunked samples"):
        read(write_zstd_zip(tmp_path / "b.eval", entries))


def test_the_same_epoch_twice_is_refused(tmp_path):
    (tmp_path / "log.json").write_text(json.dumps(HEADER | {"samples": [sample(), sample()]}))
    with pytest.raises(ConfigError, match="sample 1 has epoch 1 twice"):
        read(tmp_path / "log.json")
