"""Rollouts with a user that a model plays: one trace, two agents, and only one of them is graded, limited and trained."""

import anyio
import msgspec
import pytest

from builders.model_folders import FAMILIES
from fakes.token_models import ForcedModel
from fakes.users import users_saying
from sandlot.analysis.health.features import features_of
from sandlot.analysis.tokens.faults import structure_faults
from sandlot.core.errors import AuthorError, ConfigError, ModelError
from sandlot.core.limits import Limits
from sandlot.core.persona import AGENT, NO_REPLY, Persona
from sandlot.core.ports.model import Sampling
from sandlot.core.task import Task
from sandlot.core.trace import Failed, Trace
from sandlot.core.trace_row import row_of
from sandlot.core.types import End, Role, Side
from sandlot.env.environment import Environment
from sandlot.env.user import LimitedUser, persona_of
from sandlot.grade.view import transcript
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.replay import ReplayUsers, replay_policies
from sandlot.model.policy.scripted import scripted_policies
from sandlot.model.policy.tokens import token_policies
from sandlot.model.policy.user import ModelUsers
from sandlot.model.render.open import open_renderer
from sandlot.rollout import run_rollout
from sandlot.store.blobs import MemoryBlobs
from sandlot.train.rows import rows_of
from sandlot.wiring.parts import Grading, RolloutParts

TASK = Task("refund", prompt="I want my money back.", data={"order": "A-17"}, key={"secret": "42 euros"})


def desk(**options) -> Environment:
    env = Environment("desk", **options)

    @env.persona
    def customer(task):
        return Persona(who="You are Ada and want your money back.", facts={"order number": task.data["order"]})

    @env.tool
    async def refund(world, order: str) -> str:
        """Pay back."""
        world.state["refunded"] = order
        return "internal: 42 euros paid, margin 7%"

    @env.check(points=1)
    def paid(evidence, task):
        return evidence.state.get("refunded") == task.data["order"]

    @env.solution
    async def solve(agent, task):
        order = await agent.say("What is your order number?")
        await agent.call("refund", order=order.split()[-1])
        await agent.say("It is refunded.")

    return env


def ada(heard, mark, view):
    if "order number" in heard:
        return "It is A-17"
    return f"Thank you!\n{mark}" if "refunded" in heard else "And my money?"


async def rolled(env=None, users=None, policies=None) -> Trace:
    env = env or desk()
    players = policies or scripted_policies("golden", env.marked.solution)
    parts = RolloutParts(grading=Grading(env=env), policies=players, harness=ToolLoop(), users=users or users_saying(ada))
    return await run_rollout(parts, TASK, run="test", rollout=0, blobs=MemoryBlobs())


async def test_the_user_answers_in_the_same_trace_until_it_is_done():
    trace = await rolled()
    assert (trace.end, trace.reward) == (End.DONE, 1.0)
    assert [(node.message.role, node.message.agent, node.message.text, node.sampled) for node in trace.nodes] == [
        (Role.USER, "agent", "I want my money back.", False),
        (Role.ASSISTANT, "agent", "What is your order number?", True),
        (Role.USER, AGENT, "It is A-17", True),
        (Role.ASSISTANT, "agent", "", True),
        (Role.TOOL, "environment", "", False),
        (Role.ASSISTANT, "agent", "It is refunded.", True),
        (Role.USER, AGENT, "Thank you!", True),
    ]
    assert trace.path() == trace.nodes


async def test_the_users_turns_are_not_the_agents():
    trace = await rolled()
    assert trace.num_turns == 3
    assert trace.answer == "It is refunded."
    assert row_of(trace, split="train").turns == 3
    assert features_of(trace).tools == {"(no tool)": 2, "refund": 1}
    assert trace.nodes[2].model == "scripted:said"


async def test_the_user_sees_no_call_no_result_and_no_key():
    seen = []

    def say(heard, mark, view):
        seen.append("\n".join(str(node.message) for node in view.nodes))
        return ada(heard, mark, view)

    await rolled(users=users_saying(say))
    assert "It is refunded." in seen[-1]
    for hidden in ("42 euros", "margin", "ToolCall", "ToolResult", "Role.TOOL"):
        assert hidden not in seen[-1]


async def test_the_agent_never_sees_the_persona_or_the_mark():
    trace = await rolled()
    (told,) = (event.detail["instructions"] for event in trace.events if event.kind == "user_told")
    assert "You are Ada" in told
    shown = transcript(trace)
    assert "You are Ada" not in shown
    assert "END-" not in shown


async def test_its_trace_can_be_stored_and_read():
    trace = await rolled()
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(trace), type=Trace) == trace


async def test_limits_end_a_user_who_never_does():
    trace = await rolled(
        desk(limits=Limits(turns=4)), users_saying(lambda heard, mark, view: "And?"), scripted_policies("constant:No.")
    )
    assert (trace.end, trace.num_turns, trace.reward) == (End.TURN_LIMIT, 4, 0.0)


@pytest.mark.parametrize(
    ("users", "kind"),
    [
        (ModelUsers(scripted_policies("crash")), "crash"),
        (users_saying(lambda heard, mark, view: str(1 // 0)), "crash"),
    ],
)
async def test_a_failing_user_is_an_infrastructure_failure_without_a_score(users, kind):
    trace = await rolled(users=users)
    assert isinstance(trace.outcome, Failed)
    assert (trace.outcome.side, trace.outcome.kind, trace.end, trace.reward) == (Side.MODEL, kind, End.CUT, None)
    assert "user" in trace.outcome.message


async def test_a_user_that_hangs_is_the_models_failure_and_not_the_agents_time():
    trace = await rolled(desk(limits=Limits(time_s=0.1)), ModelUsers(scripted_policies("hang")))
    assert isinstance(trace.outcome, Failed)
    assert (trace.outcome.side, trace.outcome.kind) == (Side.MODEL, "timeout")
    assert trace.outcome.message == "the user's reply: took longer than 0.1 s"


@pytest.mark.parametrize("spec", ["noop", "refuse"])
async def test_a_user_brought_to_give_no_reply_does_not_spare_the_agent_its_score(spec):
    trace = await rolled(
        desk(limits=Limits(turns=3)), ModelUsers(scripted_policies(spec)), scripted_policies("constant:Say <tool_call>.")
    )
    assert (trace.end, trace.reward) == (End.TURN_LIMIT, 0.0)
    assert sum(event.kind in NO_REPLY for event in trace.events) == 3


async def test_replies_that_together_take_too_long_end_the_rollout_and_not_the_score():
    persona = Persona(who="You are Ada.")
    async with users_saying(lambda heard, mark, view: "And?").user(persona, TASK, 1) as user:
        turn = await LimitedUser(user, 60.0, ModelError, "its reply", all_s=1e-9).reply("No.")
    assert (turn.text, turn.end, turn.events[-1].kind) == ("And?", End.TIME_LIMIT, "user_time_limit")
    async with users_saying(lambda heard, mark, view: f"Bye. {mark}").user(persona, TASK, 1) as user:
        turn = await LimitedUser(user, 60.0, ModelError, "its reply", all_s=1e-9).reply("No.")
    assert (turn.text, turn.end) == ("Bye.", End.DONE)


async def test_a_user_who_can_take_in_no_more_ends_it_and_it_is_graded():
    def say(heard, mark, view):
        raise ModelError("too long", kind="context")

    trace = await rolled(users=users_saying(say), policies=scripted_policies("flood"))
    assert (trace.end, trace.reward) == (End.TOKEN_LIMIT, 0.0)
    assert trace.events[-1].kind == "user_context_overflow"
    assert trace.events[-1].turn == 1


async def test_a_persona_that_breaks_is_the_authors_failure():
    env = desk()
    env.marked.persona = lambda task: f"You are {task.data['nobody']}."
    trace = await rolled(env)
    assert (trace.outcome.side, trace.outcome.kind) == (Side.ENVIRONMENT, "crash")


async def test_a_persona_that_is_none_is_refused_with_the_fix():
    env = desk()
    env.marked.persona = lambda task: "You are Ada."
    trace = await rolled(env)
    assert trace.outcome.side is Side.ENVIRONMENT
    assert "return `Persona(who=...)`" in trace.outcome.message


async def test_a_persona_that_hangs_is_the_authors_failure():
    env = desk(limits=Limits(setup_s=0.05))

    async def nobody(task):
        await anyio.sleep_forever()

    env.marked.persona = nobody
    with pytest.raises(AuthorError, match="the persona of task `refund`: took longer"):
        await persona_of(env, TASK)


async def test_a_persona_is_given_no_key():
    keys = []
    env = desk()
    env.marked.persona = lambda task: keys.append(task.key) or Persona(who="You are Ada.")
    await rolled(env)
    assert keys == [{}]


async def test_without_a_model_the_authors_replies_answer():
    env = desk()
    env.user(lambda world, text: None if "refunded" in text else "It is A-17")
    parts = RolloutParts(grading=Grading(env=env), policies=scripted_policies("golden", env.marked.solution), harness=ToolLoop())
    trace = await run_rollout(parts, TASK, run="test", rollout=0, blobs=MemoryBlobs())
    assert (trace.end, trace.reward) == (End.DONE, 1.0)
    assert not any(node.sampled and not node.is_turn for node in trace.nodes)


async def test_a_persona_nobody_plays_is_refused_with_the_fix():
    with pytest.raises(ConfigError, match="--user MODEL"):
        async with desk().session(TASK):
            pass


async def test_a_replay_says_again_what_both_said():
    then = await rolled()
    again = await rolled(users=ReplayUsers(lambda *_: then), policies=replay_policies(lambda *_: then))
    assert [node.message for node in again.nodes] == [node.message for node in then.nodes]
    assert (again.end, again.reward) == (End.DONE, 1.0)
    assert not [event for event in again.events if event.kind == "replay_diverged"]


async def test_a_replayed_user_who_ended_without_a_word_does_so_again():
    then = await rolled(users=users_saying(lambda heard, mark, view: mark if "refunded" in heard else "It is A-17"))
    again = await rolled(users=ReplayUsers(lambda *_: then), policies=replay_policies(lambda *_: then))
    assert (then.end, again.end, len(again.nodes)) == (End.DONE, End.DONE, len(then.nodes))


async def test_a_replayed_user_has_no_more_to_say_than_was_recorded():
    short = desk(limits=Limits(turns=2))
    then = await rolled(short, users_saying(lambda heard, mark, view: "And?"), scripted_policies("constant:Hm."))
    trace = await rolled(users=ReplayUsers(lambda *_: then), policies=scripted_policies("constant:Hm."))
    assert (trace.outcome.side, trace.outcome.kind) == (Side.MODEL, "replay_over")


async def test_the_agents_tokens_go_on_across_the_users_words_and_only_they_are_trained(tmp_path):
    renderer = open_renderer(FAMILIES["rookie"](tmp_path))
    stop = renderer.stop_ids[0]
    model = ForcedModel([[40, 41, stop], [42, stop], [43, 44, 45, stop]])
    trace = await rolled(
        desk(limits=Limits(turns=3)),
        users_saying(lambda heard, mark, view: f"More {view.num_turns}?"),
        token_policies(model, renderer, Sampling()),
    )
    turns = list(trace.turns())
    assert trace.trainable
    assert not structure_faults(trace)
    assert [given[: len(before)] for before, given in zip(model.prompts, model.prompts[1:], strict=False)] == model.prompts[:-1]
    (row,) = rows_of(trace)
    assert row.trained.sum() == sum(len(node.tokens) for node in turns)
    assert set(row.turns.tolist()) == {-1, 0, 1, 2}
