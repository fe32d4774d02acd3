"""What is said about sources and rows of NeMo Gym that cannot be taken, and how a rollout is handed to `/verify`.

The servers themselves are asked in `tests/foreign/interop/nemo_gym_conformance.py`.
"""

from types import SimpleNamespace

import pytest

from sandlot.core.errors import ConfigError, GradeError
from sandlot.core.trace import Message, Text, ToolCall
from sandlot.core.types import Role
from sandlot.env.importing import import_environment
from sandlot.interop.nemo_gym.world import response_of, score_of_verify, tools_of


def said(text, *calls):
    return Message(role=Role.ASSISTANT, parts=(*((Text(text),) if text else ()), *calls))


def test_messages_calls_and_results_are_items_of_a_response_in_their_order():
    call = ToolCall(id="c1", name="search", arguments={"query": "x"})
    output = response_of([said("Let me look.", call), said("Found.")], {(0, 0): "one"})["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "function_call_output", "message"]
    assert (output[1]["arguments"], output[2]["output"]) == ('{"query": "x"}', "one")
    assert output[3]["content"][0]["text"] == "Found."


def test_an_agent_that_says_nothing_has_an_empty_message():
    (item,) = response_of([said("")], {})["output"]
    assert item["content"][0]["text"] == ""


def test_malformed_arguments_are_handed_over_as_they_were_written():
    call = ToolCall(id="c1", name="search", arguments={}, malformed='{"query": ')
    assert response_of([said("", call)], {})["output"][0]["arguments"] == '{"query": '


@pytest.mark.parametrize("reward", [1.5, -0.1, float("nan"), float("inf")])
def test_a_reward_outside_of_the_scale_is_no_reward(reward):
    with pytest.raises(GradeError, match=r"outside of 0\.\.1"):
        score_of_verify(SimpleNamespace(state={"verified": {"reward": reward}}), 0.0, 1.0)


def test_a_verification_that_failed_is_no_reward():
    with pytest.raises(GradeError, match="status 500"):
        score_of_verify(SimpleNamespace(state={"verified": {"failed": "`/verify` has the status 500"}}), 0.0, 1.0)


def test_a_tool_that_is_no_function_is_refused():
    with pytest.raises(ConfigError, match="web_search"):
        tools_of({"responses_create_params": {"tools": [{"type": "web_search"}]}})


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?data=none.jsonl", "no file of rows"),
        ("?config=../x.yaml", "no such file"),
        ("?score=9", "no range"),
        ("?split=test", "unknown `split`"),
    ],
)
def test_what_is_wrong_with_a_source_is_said(tmp_path, query, words):
    (tmp_path / "server" / "data").mkdir(parents=True)
    (tmp_path / "server" / "app.py").write_text("raise SystemExit('never run')")
    (tmp_path / "server" / "data" / "example.jsonl").write_text("{}")
    with pytest.raises(ConfigError, match=words):
        import_environment("nemo-gym", f"{tmp_path / 'server'}{query}", tmp_path / "env")


def test_a_folder_without_a_server_and_a_python_without_the_package_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"has no `app\.py`"):
        import_environment("nemo-gym", str(tmp_path), tmp_path / "env")
    (tmp_path / "server" / "data").mkdir(parents=True)
    (tmp_path / "server" / "app.py").write_text("")
    (tmp_path / "server" / "data" / "example.jsonl").write_text("{}")
    with pytest.raises(ConfigError, match="pip install nemo-gym"):
        import_environment("nemo-gym", str(tmp_path / "server"), tmp_path / "env")
