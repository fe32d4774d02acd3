"""Honest parts for tests: they pass the suites of their ports, and say what they are told to."""

from collections.abc import Callable, Mapping, Sequence

from sandlot.core.errors import GradeError, ModelError
from sandlot.core.ports.grading import NO_IMAGES, Judgement
from sandlot.core.ports.model import Reply, Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.trace import ImagePart, Message, Text, ToolCall
from sandlot.core.types import digest

_Said = str | Reply | Exception
"""What a model says: a text, a whole reply, or an error that it meets."""


class ScriptedChat:
    """A `ChatModel` that gives its replies in order, and the last one for ever. `asked` has what it was asked.

    `chat_policies(ScriptedChat("42"), Sampling(), calls="native")` of `sandlot.ports` makes policies of it.
    """

    def __init__(self, *replies: _Said | Callable[[Sequence[Message]], _Said], name: str = "scripted") -> None:
        """A reply is a text, a whole `Reply`, an error that the model meets, or a function from the messages to one of these."""
        if not replies:
            raise ValueError("a scripted chat model needs at least one reply")
        self.name = name
        self.asked: list[tuple[Message, ...]] = []
        self._replies = replies

    async def chat(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> Reply:
        """The next reply; an error becomes a `ModelError`."""
        del tools, sampling
        reply = self._replies[min(len(self.asked), len(self._replies) - 1)]
        self.asked.append(tuple(messages))
        said = reply(messages) if callable(reply) else reply
        if isinstance(said, ModelError):
            raise said
        if isinstance(said, Exception):
            raise ModelError(f"{type(said).__name__}: {said}", kind="scripted") from said
        return Reply(parts=(Text(said),) if said else ()) if isinstance(said, str) else said


def calling(*calls: ToolCall) -> Reply:
    """A reply that calls tools."""
    return Reply(parts=calls, stop="calls")


class FixedJudge:
    """A `Judge` with fixed verdicts. `asked` has the questions."""

    name = "fixed"

    def __init__(self, verdicts: str | Mapping[str, str] | Exception, reason: str = "") -> None:
        """`verdicts`: one for every question, one by question, or an error. What is not one of the choices is a `GradeError`."""
        self.asked: list[str] = []
        self._verdicts = verdicts
        self._reason = reason

    async def ask(
        self,
        question: str,
        choices: Sequence[str],
        view: Mapping[str, str],
        votes: int,
        images: Mapping[str, ImagePart] = NO_IMAGES,
    ) -> Judgement:
        """The same verdict for every vote."""
        self.asked.append(question)
        if isinstance(self._verdicts, Exception):
            raise GradeError(f"judge `{self.name}`: {self._verdicts}", kind="scripted") from self._verdicts
        verdict = self._verdicts if isinstance(self._verdicts, str) else self._verdicts.get(question)
        if verdict is None or verdict not in choices:
            raise GradeError(f"judge `{self.name}` has the verdict {verdict!r}, not one of {tuple(choices)}", kind="unparsable")
        asked = repr(
            (question, tuple(choices), sorted(view.items()), sorted((name, each.artifact) for name, each in images.items()))
        )
        return Judgement(
            verdicts=(verdict,) * votes,
            reasons=(self._reason,) * votes,
            prompt_digest=digest(asked.encode("utf-8", "surrogatepass")),
        )
