"""A model in the roles of a program of another framework, which gives the instructions and keeps the conversations itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from sandlot.core.errors import AuthorError, ModelError, boundary
from sandlot.core.persona import AGENT
from sandlot.core.ports.session import Policy, UserTurn
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Event, Message, Node, Trace
from sandlot.core.types import End, Role


@dataclass(frozen=True, slots=True)
class ModelRole:
    """`ports.RolePlayer`, and the `ports.User` of such a program: it answers questions, and has no words of its own."""

    name: str
    policy: Policy
    task: Task
    seed: int

    async def open(self) -> UserTurn:
        """Nothing: the program begins."""
        return UserTurn()

    async def reply(self, text: str) -> UserTurn:
        """An error: the program asks with whole conversations."""
        raise AuthorError(f"a role of a foreign program was told {text[:80]!r}; ask it with `answer`")

    async def answer(
        self,
        role: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        scoring: bool = False,  # noqa: ARG002 - a judge is asked as others are
    ) -> UserTurn:
        """The model's next message, calls included."""
        view = Trace(run="role", task=self.task.id, rollout=0, seed=self.seed)
        leaf: int | None = None
        for message in messages:
            # Earlier answers count as turns, so that each turn is sampled with a seed of its own.
            leaf = view.append(Node(message=message, parent=leaf, sampled=message.role is Role.ASSISTANT))
        if leaf is None:
            raise AuthorError(f"the role `{role}` was asked with a conversation without messages")
        try:
            with boundary(ModelError, "its policy"):
                node = await self.policy.turn(view, leaf, tools)
        except ModelError as error:
            if error.kind != "context":
                raise error.with_message(f"the role `{role}`, played by `{self.name}`: {error}") from error
            # The agent may have caused the length, so the rollout is still graded.
            detail = {"message": str(error)[:500], "role": role}
            return UserTurn(end=End.TOKEN_LIMIT, events=(Event(kind="user_context_overflow", turn=0, detail=detail),))
        events = [msgspec.structs.replace(event, detail={**event.detail, "agent": AGENT}) for event in view.events]
        if node.stop == "refusal":
            events.append(Event(kind="user_refused", turn=0, detail={"text": node.message.text[:200], "role": role}))
        if not node.message.text.strip() and not node.message.calls:
            events.append(Event(kind="user_said_nothing", turn=0, detail={"stop": node.stop, "role": role}))
        # Its tokens belong to the role's conversation, which is not trained on.
        told = msgspec.structs.replace(node, parent=None, context=b"", tokens=None)
        return UserTurn(text=node.message.text, node=told, events=tuple(events))
