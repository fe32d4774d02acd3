# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUntypedFunctionDecorator=false
"""An environment of ours as a task of Inspect: what the file that `sandlot export inspect` writes is made of.

A sample is a task. Its solver plays a whole rollout here: the world, the tools, the limits and the checks are ours, and the agent
is Inspect's model. A rollout that fails is an error of the sample, and never a score of 0.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import Reply, Sampling
from sandlot.core.ports.session import Policies
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import split_of
from sandlot.core.trace import Message, Part, Scored, Text, ToolCall, Trace, Usage
from sandlot.core.types import Role, Split
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.env.taskset import tasks_of
from sandlot.model.policy.chat import chat_policies
from sandlot.run.replay import play_task
from sandlot.wiring.config import AgentConfig, ModelConfig
from sandlot.wiring.models import open_policies

_KEPT = "sandlot"
"""The key of the sample's store under which the score stands."""


def inspect_task(
    env: str | Path | Environment,
    *,
    player: str | None = None,
    judge: str | None = None,
    user: str | None = None,
    split: str = "all",
) -> Any:
    """An `inspect_ai.Task` over the tasks of an environment.

    - `player`: play with one of our models, such as `scripted:golden`, instead of Inspect's.
    - `judge`, `user`: the models of judge checks and of a persona, as for `sandlot run`.
    - `split`: `train`, `heldout` or `all`.
    """
    from inspect_ai import Task as InspectTask  # noqa: PLC0415 - it is where this is used
    from inspect_ai.dataset import MemoryDataset, Sample  # noqa: PLC0415 - as above

    environment = load(env)
    if split != "all" and split not in set(Split):
        raise ConfigError(f"split is `{split}`; there are: all, {', '.join(Split)}")
    tasks = [task for task in tasks_of(environment) if split in {"all", split_of(task)}]
    samples = [Sample(id=task.id, input=task.prompt, metadata={"tags": list(task.tags)}) for task in tasks]
    return InspectTask(
        dataset=MemoryDataset(samples, name=environment.name),
        solver=_solver(environment, player, judge, user),
        scorer=_scorer(),
        name=environment.name,
    )


def _solver(env: Environment, player: str | None, judge: str | None, user: str | None) -> Any:
    from inspect_ai.model import ModelOutput, get_model  # noqa: PLC0415 - as above
    from inspect_ai.solver import solver  # noqa: PLC0415 - as above

    async def play(policies: Policies, task: str) -> Trace:
        return await play_task(env, policies, task, user=user, judge=judge)

    @solver(name="sandlot_rollout")
    def rollout() -> Any:
        async def solve(state: Any, generate: Any) -> Any:  # noqa: ARG001 - Inspect's
            name = str(state.sample_id)
            if player is None:
                trace = await play(chat_policies(InspectModel(get_model()), Sampling(), images="describe"), name)
            else:
                async with open_policies(ModelConfig(spec=player), AgentConfig(), env) as policies:
                    trace = await play(policies, name)
            state.messages = [each for node in trace.path() for each in to_inspect(node.message)]
            state.output = ModelOutput.from_content(str(state.model), trace.answer)
            if not isinstance(trace.outcome, Scored):
                raise RuntimeError(f"the rollout has no score: {trace.outcome}")  # noqa: TRY004 - an error of the sample
            score = trace.outcome.score
            checks = [
                f"{check.verdict.value}  {check.id}  {check.points:g}/{check.worth:g}  {check.evidence}" for check in score.checks
            ]
            state.store.set(_KEPT, {"value": score.value, "explanation": "\n".join(checks), "end": str(trace.end)})
            return state

        return solve

    return rollout()


def _scorer() -> Any:
    from inspect_ai.scorer import Score, mean, scorer, stderr  # noqa: PLC0415 - as above

    @scorer(metrics=[mean(), stderr()], name="sandlot_score")
    def graded() -> Any:
        async def score(state: Any, target: Any) -> Any:  # noqa: ARG001 - Inspect's
            kept = state.store.get(_KEPT)
            if kept is None:
                raise RuntimeError("the rollout was not graded")
            about = {"end": kept["end"]}
            return Score(value=kept["value"], answer=state.output.completion, explanation=kept["explanation"], metadata=about)

        return score

    return graded()


class InspectModel:
    """A model of Inspect (port `ChatModel`)."""

    def __init__(self, model: Any) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """As Inspect names it."""
        return str(self._model)

    async def chat(self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling) -> Reply:  # noqa: ARG002 - Inspect samples as it was told
        """One reply."""
        from inspect_ai.util import LimitExceededError  # noqa: PLC0415 - as above

        asked = [each for message in messages for each in to_inspect(message)]
        try:
            output = await self._model.generate(asked, tools=[_tool_info(tool) for tool in tools])
        except LimitExceededError:
            raise
        except Exception as error:
            raise ModelError(f"{type(error).__name__}: {error}") from error
        message = output.message
        parts: list[Part] = [Text(message.text)] if message.text else []
        parts += [
            ToolCall(call.id, call.function, call.arguments, str(call.arguments) if call.parse_error else None)
            for call in message.tool_calls or []
        ]
        usage = output.usage
        spent = Usage(prompt_tokens=usage.input_tokens, completion_tokens=usage.output_tokens) if usage else Usage()
        stops = {"max_tokens": "length", "model_length": "length", "content_filter": "refusal", "tool_calls": "calls"}
        return Reply(parts=tuple(parts), usage=spent, stop=stops.get(output.stop_reason, "stop"))


def _tool_info(tool: ToolSpec) -> Any:
    from inspect_ai.tool import ToolInfo, ToolParams  # noqa: PLC0415 - as above

    schema = {key: value for key, value in tool.parameters.items() if key in {"properties", "required", "additionalProperties"}}
    try:
        return ToolInfo(
            name=tool.name, description=tool.description, parameters=ToolParams.model_validate({"type": "object", **schema})
        )
    except ValueError as error:
        raise ConfigError(f"Inspect cannot express the arguments of tool `{tool.name}`: {error}") from error


def to_inspect(message: Message) -> list[Any]:
    """A message as Inspect's; tool results are one message each there."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageTool, ChatMessageUser  # noqa: PLC0415 - as above
    from inspect_ai.tool import ToolCall as InspectCall  # noqa: PLC0415 - as above
    from inspect_ai.tool import ToolCallError  # noqa: PLC0415 - as above

    if message.role is Role.SYSTEM:
        return [ChatMessageSystem(content=message.text)]
    if message.role is Role.USER:
        return [ChatMessageUser(content=message.text)]
    if message.role is Role.TOOL:
        failed = ToolCallError("unknown", "")
        return [
            ChatMessageTool(
                content=result.text,
                tool_call_id=result.call,
                error=ToolCallError(failed.type, result.text) if result.error else None,
            )
            for result in message.results
        ]
    calls = [InspectCall(id=call.id, function=call.name, arguments=call.arguments, type="function") for call in message.calls]
    return [ChatMessageAssistant(content=message.text, tool_calls=calls or None)]
