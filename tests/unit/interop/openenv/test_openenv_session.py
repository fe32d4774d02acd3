"""Sessions of OpenEnv, without a server. What they do with real rollouts: test_openenv_server.py."""

from types import SimpleNamespace

import pytest

from sandlot.core.errors import AuthorError
from sandlot.interop.openenv.session import OpenEnvSession, RefusedMessage


def test_what_fails_here_is_no_fault_of_the_message():
    def broken():
        raise TypeError("no task follows")

    session = OpenEnvSession(SimpleNamespace(begin=lambda _: broken()), ["one"], lambda: "one")
    assert session.answer('{"type": "reset"}')["data"] == {
        "code": "EXECUTION_ERROR",
        "message": "the rollout: TypeError: no task follows",
    }


class Rollouts:
    """One message ends a rollout, which then failed. What was dropped is in `dropped`."""

    def __init__(self):
        self.dropped = []
        self.drop = self.dropped.append

    def begin(self, task):
        return {"rollout": f"of {task}", "task": task, "messages": [], "tools": []}

    def move(self, rollout, message):
        return {"messages": [], "over": True}

    def finish(self, rollout):
        return {"reward": None, "failed": "grade/crash: no disk"}


def test_a_wrong_message_leaves_the_rollout_and_a_failed_one_has_no_reward():
    service = Rollouts()
    session = OpenEnvSession(service, ["one", "two"], lambda: "one")
    session.reset({"seed": 3})
    assert session.state["task"] == "two"
    with pytest.raises(RefusedMessage, match="txt"):
        session.step({"txt": "1"})
    assert service.dropped == []
    with pytest.raises(AuthorError, match="has no reward: grade/crash; the server's run"):
        session.step({"text": "1"})
    assert service.dropped == ["of two"]
    with pytest.raises(RefusedMessage, match="call `reset`"):
        session.step({"text": "1"})
