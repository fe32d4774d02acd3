"""Roles of a foreign program: the run's user model answers, what it says is recorded, and its failures are failures."""

from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest

from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.limits import Limits
from sandlot.core.persona import AGENT, ROLE_ANSWERED, Persona
from sandlot.core.ports.session import UserTurn
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Failed, Message, Node, Text, ToolCall, ToolResult, Trace, Usage, text_message
from sandlot.core.types import End, Role, Side
from sandlot.env import roles as roles_module
from sandlot.env.environment import Environment
from sandlot.env.facts import environment_facts
from sandlot.env.user import require_user
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.faithful_user import FaithfulUsers
from sandlot.model.policy.player import Move, Player
from sandlot.model.policy.replay import ReplayUsers, replay_policies
from sandlot.model.policy.scripted import ScriptedPolicies, scripted_policies
from sandlot.model.policy.user import ModelUsers
from sandlot.rollout import run_rollout
from sandlot.run.manifest import list_served_tools
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.config import user_config
from sandlot.wiring.models import open_users
from sandlot.wiring.parts import Grading, RolloutParts

TASK = Task("call", prompt="(The user begins the conversation.)", key={"secret": "not for the user"})
RESTART = ToolSpec(name="restart", description="Restart the phone.", parameters={"type": "object", "properties": {}})
TOLD = text_message(Role.SYSTEM, "You are Ada. Your phone is dead.")


@dataclass(frozen=True)
class Shop:
    """A program whose customer is a role with a tool of its own; `look` asks a role too."""

    roles: tuple[str, ...] = ("customer",)

    @asynccontextmanager
    async def open(self, world):
        talk = world.state["talk"] = Talk(world)
        await talk.say("Begin.")
        yield [Look()]


@dataclass
class Talk:
    """The customer's conversation, which the program keeps."""

    world: object

    def __post_init__(self):
        self.messages = [TOLD]
        self.said = None

    async def say(self, text):
        self.messages.append(text_message(Role.USER, text))
        while True:
            turn = await self.world.roles.answer("customer", self.messages, [RESTART])
            if turn.node is None:
                return turn.end
            self.messages.append(turn.node.message)
            self.said = turn.node
            if not turn.node.message.calls:
                return None
            results = [ToolResult(call.id, "restarted") for call in turn.node.message.calls]
            self.messages.append(Message(role=Role.TOOL, parts=tuple(results)))


class Look:
    """A tool of the agent that asks a role."""

    spec = ToolSpec(name="look", description="Ask an expert.", parameters={"type": "object", "properties": {}})
    concurrent = False

    async def call(self, world, call):
        turn = await world.roles.answer("expert", [text_message(Role.USER, "What is it?")], [])
        return ToolResult(call=call.id, text=turn.text or "no answer")


@dataclass
class Customer:
    """The `User` of the program."""

    world: object
    task: Task

    async def open(self):
        return self._turn(None)

    async def reply(self, text):
        return self._turn(await self.world.state["talk"].say(text))

    def _turn(self, end):
        said = self.world.state["talk"].said
        text = said.message.text
        message = Message(role=Role.USER, parts=(Text(text),), agent=AGENT)
        node = Node(message=message, sampled=True, model=said.model)
        return UserTurn(text=text, end=end or (End.DONE if "bye" in text else None), node=node)


def shop(**options) -> Environment:
    env = Environment("shop", **options)
    env.use(Shop())
    env.marked.user = Customer
    env.marked.tasks = lambda _rng: [TASK]

    @env.finish
    def forget(world, task):
        world.state.clear()

    @env.check(points=1)
    def was_helped(evidence, task):
        return "restart" in evidence.answer

    @env.solution
    async def golden(agent, task):
        await agent.call("look")
        await agent.say("Please restart it.")

    return env


def ada(messages, tools):
    """A customer that restarts the phone when she is told to."""
    last = messages[-1]
    if last.results:
        return "It works, bye."
    if "restart" in last.text:
        assert [tool.name for tool in tools] == ["restart"]
        return ToolCall("r", "restart", {})
    return "An expert says: restart." if "What is it" in last.text else "My phone is dead."


def users_answering(answer, name="scripted:said"):
    def play(view):
        said = answer([node.message for node in view.trace.path(view.leaf)], view.tools)
        return Move((Text(said),) if isinstance(said, str) else (said,))

    return ModelUsers(ScriptedPolicies(name, lambda _task, seed: Player(name, play, seed)))


async def rolled(users, env=None, policies=None) -> Trace:
    env = env or shop()
    policies = policies or scripted_policies("golden", env.marked.solution)
    parts = RolloutParts(grading=Grading(env=env), policies=policies, harness=ToolLoop(), users=users)
    return await run_rollout(parts, TASK, run="test", rollout=0, blobs=MemoryBlobs())


def answers(trace):
    return [event for event in trace.events if event.kind == ROLE_ANSWERED]


async def test_every_answer_is_recorded_and_what_the_agent_reads_is_a_message_of_the_user():
    trace = await rolled(users_answering(ada))
    assert (trace.end, trace.reward) == (End.DONE, 1.0)
    assert [(node.message.text, node.message.agent, node.sampled) for node in trace.nodes if node.message.role is Role.USER] == [
        ("My phone is dead.", AGENT, True),
        ("It works, bye.", AGENT, True),
    ]
    found = [(event.turn, event.detail["role"], event.detail["text"], event.detail["model"]) for event in answers(trace)]
    assert found == [
        (0, "customer", "My phone is dead.", "scripted:said"),
        (1, "expert", "An expert says: restart.", "scripted:said"),
        (2, "customer", "", "scripted:said"),
        (2, "customer", "It works, bye.", "scripted:said"),
    ]
    assert [call["name"] for call in answers(trace)[2].detail["calls"]] == ["restart"]
    told = [event.detail for event in trace.events if event.kind == "user_told"]
    assert [(each["role"], each["instructions"]) for each in told] == [("customer", TOLD.text), ("expert", "")]
    assert trace.num_turns == 2  # the agent's


async def test_the_usage_of_an_answer_is_in_its_event_and_not_the_agents():
    class Counted:
        async def turn(self, trace, leaf, tools):
            message = text_message(Role.ASSISTANT, "bye")
            return Node(message=message, sampled=True, usage=Usage(prompt_tokens=7, completion_tokens=2, usd=0.5))

    trace = await rolled(ModelUsers(ScriptedPolicies("counted", lambda _task, _seed: Counted())))
    usages = [event.detail["usage"] for event in answers(trace)]
    assert usages
    assert all(usage["completion_tokens"] == 2 and usage["usd"] == 0.5 for usage in usages)
    assert trace.usage == Usage()


async def test_the_model_sees_the_programs_conversation_and_nothing_else():
    seen = []

    def look(messages, tools):
        seen.append([message.text for message in messages])
        return ada(messages, tools)

    await rolled(users_answering(look))
    assert seen[0] == [TOLD.text, "Begin."]
    assert seen[1] == ["What is it?"]
    assert "not for the user" not in str(seen)


async def test_each_turn_of_a_role_is_sampled_with_a_seed_of_its_own():
    turns = []

    def look(view):
        turns.append(view.turn)
        text = "bye" if len(turns) > 2 else "My phone is dead."
        return Move((Text(text),))

    policies = ScriptedPolicies("p", lambda _task, seed: Player("p", look, seed))
    await rolled(ModelUsers(policies), policies=scripted_policies("constant:What?"))
    assert turns == [0, 1, 2]


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_a_model_that_fails_is_the_models_failure_wherever_it_is_asked(at):
    asked = []

    def fails(messages, tools):
        asked.append(messages)
        if len(asked) == at + 1:
            raise ModelError("the endpoint is down", kind="unavailable")
        return ada(messages, tools)

    trace = await rolled(users_answering(fails))
    assert isinstance(trace.outcome, Failed)
    assert (trace.outcome.side, trace.outcome.kind, trace.reward) == (Side.MODEL, "unavailable", None)
    assert "the endpoint is down" in trace.outcome.message


async def test_a_conversation_too_long_for_the_model_ends_the_rollout_and_it_is_scored():
    def full(messages, tools):
        if "restart" in messages[-1].text:
            raise ModelError("too long", kind="context")
        return ada(messages, tools)

    trace = await rolled(users_answering(full))
    assert (trace.end, trace.reward) == (End.TOKEN_LIMIT, 1.0)
    assert "user_context_overflow" in {event.kind for event in trace.events}


async def test_a_role_that_calls_its_tools_without_end_is_stopped_and_the_rollout_is_scored(monkeypatch):
    monkeypatch.setattr(roles_module, "MAX_ANSWERS", 20)

    def loops(messages, tools):
        return ToolCall("r", "restart", {}) if messages[-1].results or "restart" in messages[-1].text else ada(messages, tools)

    trace = await rolled(users_answering(loops))
    assert (trace.end, trace.reward) == (End.TIME_LIMIT, 1.0)
    assert [event.detail["end"] for event in answers(trace)] == [None] * 20 + ["time_limit"]
    assert [event.detail["answers"] for event in trace.events if event.kind == "user_time_limit"] == [20]


async def test_what_an_agent_causes_in_play_does_not_keep_a_judge_from_answering(monkeypatch):
    monkeypatch.setattr(roles_module, "MAX_ANSWERS", 2)
    asked = [text_message(Role.USER, "What is it?")]
    async with users_answering(ada).user(Persona(who="x", role="customer"), TASK, 1) as player:
        roles = roles_module.PlayedRoles(player, 60.0)
        for _ in range(3):
            turn = await roles.answer("customer", asked, [])
        assert turn.end is End.TIME_LIMIT
        assert (await roles.answer("grader", asked, [], scoring=True)).text == "An expert says: restart."
        assert roles.take(1)[1] is End.TIME_LIMIT


async def test_answers_before_a_failure_are_kept():
    def fails(messages, tools):
        if messages[-1].results:
            raise ModelError("the endpoint is down", kind="unavailable")
        return ada(messages, tools)

    trace = await rolled(users_answering(fails))
    assert isinstance(trace.outcome, Failed)
    assert [call["name"] for call in answers(trace)[-1].detail["calls"]] == ["restart"]


async def test_a_replay_repeats_how_a_role_ended():
    def full(messages, tools):
        if "restart" in messages[-1].text:
            raise ModelError("too long", kind="context")
        return ada(messages, tools)

    first = await rolled(users_answering(full))
    again = await rolled(ReplayUsers(lambda *_: first), policies=replay_policies(lambda *_: first))
    assert (again.end, again.reward) == (first.end, first.reward) == (End.TOKEN_LIMIT, 1.0)


async def test_the_instructions_of_many_roles_are_not_all_recorded(monkeypatch):
    monkeypatch.setattr(roles_module, "_MAX_TOLD", 2)
    monkeypatch.setattr(roles_module, "_MAX_TOLD_CHARS", 10)
    async with users_answering(ada).user(Persona(who="x", role="customer"), TASK, 1) as player:
        roles = roles_module.PlayedRoles(player, 60.0)
        for number in range(4):
            await roles.answer(f"role {number}", [TOLD, text_message(Role.USER, "What is it?")], [])
    told = [event.detail["instructions"] for event in roles.take(1)[0] if event.kind == "user_told"]
    assert told == [TOLD.text[:10]] * 2


async def test_waiting_for_a_role_counts_against_no_limit_of_the_agent_or_its_tools():
    left_s = []

    class Asked:
        async def turn(self, trace, leaf, tools):
            left_s.append(anyio.current_effective_deadline() - anyio.current_time())
            return Node(message=text_message(Role.ASSISTANT, "bye"), sampled=True)

    env = shop(limits=Limits(tool_s=60, provision_s=60, time_s=3600))
    await rolled(ModelUsers(ScriptedPolicies("asked", lambda _task, _seed: Asked())), env)
    assert len(left_s) > 1
    assert all(60 < each <= 3600 for each in left_s)  # its own deadline only


async def test_a_replay_repeats_the_answers_and_an_answer_for_another_role_is_refused():
    first = await rolled(users_answering(ada))
    again = await rolled(ReplayUsers(lambda *_: first), policies=replay_policies(lambda *_: first))
    assert [node.message for node in again.nodes] == [node.message for node in first.nodes]
    assert [event.detail["text"] for event in answers(again)] == [event.detail["text"] for event in answers(first)]
    other = await rolled(ReplayUsers(lambda *_: first), policies=scripted_policies("constant:Hm."))
    assert isinstance(other.outcome, Failed)
    assert (other.outcome.side, other.outcome.kind) == (Side.MODEL, "replay_over")


async def test_without_a_model_it_is_refused_and_the_tools_can_still_be_listed():
    env = shop()
    with pytest.raises(ConfigError, match=r"the role customer .* `--user MODEL`"):
        require_user(env, named=False)
    require_user(env, named=True)
    assert "`--user MODEL`" in environment_facts(env)["user"]
    assert [tool.name for tool in await list_served_tools(env, TASK)] == ["look"]


async def test_a_user_that_follows_a_persona_cannot_play_a_role():
    config = user_config("scripted:persona")
    assert config is not None
    with pytest.raises(ConfigError, match="scripted:echo"):
        async with open_users(config, shop()):
            pass
    trace = await rolled(FaithfulUsers())
    assert isinstance(trace.outcome, Failed)
    assert "cannot play" in trace.outcome.message


async def test_a_role_is_told_nothing_outside_of_the_programs_conversations():
    async with users_answering(ada).user(Persona(who="x", role="customer"), TASK, 1) as role:
        assert await role.open() == UserTurn()
        with pytest.raises(Exception, match="ask it with `answer`"):
            await role.reply("Hello.")
        with pytest.raises(Exception, match="without messages"):
            await role.answer("customer", [], [])
