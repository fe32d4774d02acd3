import sys
from types import SimpleNamespace

import pytest

from sandlot.core.errors import ConfigError
from sandlot.env.importing import import_environment
from sandlot.interop.inspect_ai.importer import _begin
from sandlot.interop.inspect_ai.world import opening_of, share_of_scores


def message(role, text="x", kinds=()):
    return {"role": role, "text": text, "kinds": list(kinds), "call": None, "error": None}


@pytest.mark.parametrize("source", ["", "x", "a/b/c", "/x", "missing.py@task", "x/y?score=3"])
def test_what_names_no_task_is_refused(source, tmp_path):
    with pytest.raises(ConfigError):
        import_environment("inspect", source, tmp_path / "env")


def test_a_python_without_inspect_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SANDLOT_INSPECT_PYTHON", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="SANDLOT_INSPECT_PYTHON"):
        import_environment("inspect", "inspect_evals/x", tmp_path / "env")
    monkeypatch.setenv("SANDLOT_INSPECT_PYTHON", sys.executable)
    with pytest.raises(ConfigError, match="inspect_ai"):
        import_environment("inspect", "inspect_evals/x", tmp_path / "env")


def test_a_solution_that_is_no_solution_is_refused_before_inspect_is_started(tmp_path, monkeypatch):
    monkeypatch.setenv("SANDLOT_INSPECT_PYTHON", str(tmp_path / "none"))
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def solved(): ...")
    for file, says in ((tmp_path / "missing.py", "cannot be read"), (wrong, "async def solve")):
        with pytest.raises(ConfigError, match=says):
            import_environment("inspect", f"inspect_evals/x?solution={file}", tmp_path / "env")


def test_a_conversation_begins_with_a_user():
    seen = {"messages": [message("system", "Be short."), message("user", "What is 1+1?", ["text"])]}
    assert opening_of(seen) == ("Be short.", "What is 1+1?")
    for wrong in ([message("user"), message("assistant"), message("user")], [], [message("user", kinds=["text", "image"])]):
        with pytest.raises(ConfigError):
            opening_of({"messages": wrong})
    with pytest.raises(ConfigError, match="asks no model"):
        opening_of({"done": True, "error": None})


def test_a_scorer_that_failed_is_no_score():
    def share(**state):
        return share_of_scores(SimpleNamespace(state=state))

    assert share(scores={"match": {"value": "C"}}, failed=None) == (1.0, "match 1")
    for state in ({"scores": {}, "failed": "it broke"}, {"scores": {}}, {"scores": {"match": {"value": None}}}, {}):
        with pytest.raises(Exception, match=r"it broke|no scores|no number|scores"):
            share(**state)


class _Job:
    """A sample whose solver asks models in roles before it asks the agent."""

    def __init__(self, *seen):
        self.left = list(seen)
        self.seen = self.left.pop(0)
        self.heard = []
        self.closed = False

    def ask(self, value):
        self.heard.append(value)
        self.seen = self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def close(self):
        self.closed = True


def begun(job):
    roles = []
    sample = {"id": "s 1", "sandbox": None, "target": ["4", "four"], "metadata": {"level": 1}}
    return _begin(SimpleNamespace(job=lambda _request: job), sample, roles), roles


def asks_role(role):
    return {"role": role, "messages": [message("user", "Play along.")], "tools": []}


def test_models_in_roles_are_answered_until_the_agent_is_asked_and_are_named_once():
    job = _Job(asks_role("critic"), asks_role("critic"), asks_role("guide"), {"messages": [message("user", "2+2?", ["text"])]})
    (_, task), roles = begun(job)
    assert (roles, len(job.heard), job.closed) == (["critic", "guide"], 3, False)
    assert (task.prompt, task.key) == ("2+2?", {"target": "4", "metadata": {"level": 1}})


def test_a_sample_that_never_asks_the_agent_is_left_out_and_closed():
    job = _Job(asks_role("critic"), asks_role("critic"))
    with pytest.raises(ConfigError, match="asked a model in the role `critic` 50 times, and not the agent"):
        begun(job)
    assert job.closed
