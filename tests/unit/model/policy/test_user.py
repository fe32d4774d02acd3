"""A user that a model plays: what it sees, how it ends, and what becomes of a reply that is none."""

import pytest

from fakes.users import users_saying
from sandlot.core.errors import ModelError
from sandlot.core.persona import NO_REPLY, Persona
from sandlot.core.task import Task
from sandlot.core.trace import Event, Text, ToolCall
from sandlot.core.types import End, Role
from sandlot.model.policy.player import REFUSAL, Move
from sandlot.model.policy.scripted import scripted_policies
from sandlot.model.policy.user import CONNECTED, MAX_MESSAGE_CHARS, NO_AGENT_TEXT, NO_USER_TEXT, ModelUsers, end_mark

TASK = Task("t", prompt="My kettle leaks.", data={"order": "A-17"})
ADA = Persona(who="You are Ada.", facts={"order number": "A-17"})


async def replied(say, *words, seed=1):
    async with users_saying(say).user(ADA, TASK, seed) as user:
        return [await user.reply(text) for text in words][-1]


async def test_it_sees_itself_as_the_assistant_and_the_agent_as_the_user():
    seen = []

    def say(heard, mark, view):
        seen.append([(node.message.role, node.message.text) for node in view.nodes])
        return f"reply {view.num_turns}"

    await replied(say, "What is your order?", "And your name?")
    (told, *rest) = seen[-1]
    assert told == (Role.SYSTEM, ADA.instructions(end_mark(1)))
    assert rest == [
        (Role.USER, CONNECTED),
        (Role.ASSISTANT, "My kettle leaks."),
        (Role.USER, "What is your order?"),
        (Role.ASSISTANT, "reply 0"),
        (Role.USER, "And your name?"),
    ]


async def test_it_ends_with_its_mark():
    turn = await replied(lambda heard, mark, view: f"Thank you.\n{mark}", "Refunded.")
    assert (turn.text, turn.end) == ("Thank you.", End.DONE)


async def test_a_mark_alone_ends_without_words():
    turn = await replied(lambda heard, mark, view: mark, "Refunded.")
    assert (turn.text, turn.end, turn.node) == ("", End.DONE, None)


async def test_rollouts_have_marks_of_their_own():
    assert len({end_mark(seed) for seed in range(100)}) == 100


async def test_the_agent_cannot_put_the_end_into_its_mouth():
    turn = await replied(lambda heard, mark, view: heard, f"Say: {end_mark(1)}", seed=1)
    assert turn.end is None
    assert end_mark(1) not in turn.text


async def test_the_agent_never_reads_the_mark():
    turn = await replied(lambda heard, mark, view: f"I shall say {mark} at the end.", "When are you done?")
    assert (turn.end, turn.text) == (None, "I shall say   at the end.")


async def test_silence_of_the_agent_is_told_as_such():
    heard = []
    await replied(lambda words, mark, view: heard.append(words) or "Hello?", "")
    assert heard == [NO_AGENT_TEXT]


CALL = '<tool_call>\n{"name":"refund","arguments":{"order":1}}\n</tool_call>'


@pytest.mark.parametrize(
    ("move", "text", "kinds"),
    [
        ("", NO_USER_TEXT, ["user_said_nothing"]),
        (" \n", NO_USER_TEXT, ["user_said_nothing"]),
        (Move((Text(REFUSAL),), "refusal"), REFUSAL, ["user_refused"]),
        (Move((), "refusal"), NO_USER_TEXT, ["user_refused", "user_said_nothing"]),
        (Move((ToolCall("c", "refund", {"order": 1}),)), CALL, ["user_called"]),
        (Move((Text("So:"), ToolCall("c", "refund", {"order": 1}))), f"So:\n{CALL}", ["user_called"]),
        (Move((ToolCall("c", "x", malformed="{"),)), "<tool_call>\n{\n</tool_call>", ["user_called"]),
    ],
)
async def test_a_reply_that_is_none_is_heard_as_it_is_and_told(move, text, kinds):
    views = []
    turn = await replied(lambda heard, mark, view: views.append(view) or move, "Say <tool_call>, or nothing.", "And?")
    assert (turn.text, turn.end, turn.node.message.parts) == (text, None, (Text(text),))
    assert [event.kind for event in turn.events] == kinds
    assert not any(node.message.calls for node in views[-1].nodes)
    assert set(kinds) <= NO_REPLY


async def test_a_mark_out_of_place_and_nothing_else_is_silence():
    turn = await replied(lambda heard, mark, view: f"{mark}\u2003", "Done?")
    assert (turn.end, turn.text, [event.kind for event in turn.events]) == (None, NO_USER_TEXT, ["user_said_nothing"])


async def test_a_crash_is_the_models_failure_and_says_that_it_was_the_users():
    async with ModelUsers(scripted_policies("crash")).user(ADA, TASK, 1) as user:
        with pytest.raises(ModelError, match="the user, played by `scripted:crash`"):
            await user.reply("Hello?")


async def test_a_bug_of_its_policy_is_the_models_failure_too():
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        await replied(lambda heard, mark, view: str(1 // 0), "Hello?")


async def test_a_conversation_too_long_for_it_ends_the_rollout_at_the_token_limit():
    def say(heard, mark, view):
        raise ModelError("too long", kind="context")

    turn = await replied(say, "Hello?")
    assert (turn.end, [event.kind for event in turn.events]) == (End.TOKEN_LIMIT, ["user_context_overflow"])


async def test_a_flood_is_cut_on_either_side_and_told():
    heard = []

    def say(words, mark, view):
        heard.append(len(words))
        return "blah " * 100_000

    turn = await replied(say, "x" * 1_000_000)
    assert heard[0] < MAX_MESSAGE_CHARS + 100
    assert len(turn.text) < MAX_MESSAGE_CHARS + 100
    assert [event.kind for event in turn.events] == ["user_heard_cut", "user_said_cut"]


async def test_a_reply_cut_off_by_its_token_cap_is_passed_on_and_told():
    turn = await replied(lambda heard, mark, view: Move((Text("It is the spout th"),), "length"), "What is it?")
    assert (turn.text, turn.end) == ("It is the spout th", None)
    assert turn.events == (Event(kind="user_turn_cut", turn=0, detail={"chars": 18}),)


async def test_what_it_was_told_is_told_by_an_event():
    async with users_saying(lambda heard, mark, view: "x").user(ADA, TASK, 1) as user:
        (event,) = (await user.open()).events
    assert (event.kind, event.detail["instructions"]) == ("user_told", ADA.instructions(end_mark(1)))
