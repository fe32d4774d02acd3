import anyio
import pytest

from sandlot.core.errors import AuthorError, ConfigError, HarnessError, SandboxError, ToolError
from sandlot.core.limits import Constraint, Limits, OnBreach
from sandlot.core.task import Task
from sandlot.core.trace import Message, ToolCall, text_message
from sandlot.core.types import End, Role
from sandlot.env.environment import Environment
from sandlot.env.session import MAX_CALLS, open_session
from sandlot.store.blobs import MemoryBlobs

TASK = Task("one", prompt="Do it.")


def shop(**options) -> Environment:
    env = Environment("shop", **options)

    @env.tool
    async def add(world, amount: int) -> int:
        """Add."""
        world.state["sum"] = world.state.get("sum", 0) + amount
        return world.state["sum"]

    @env.tool
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    return env


def calling(*calls: ToolCall) -> Message:
    return Message(role=Role.ASSISTANT, parts=calls)


def add(amount: object, name: str = "c") -> ToolCall:
    return ToolCall(name, "add", {"amount": amount})


async def stepped(env: Environment, *actions: Message, task: Task = TASK):
    async with open_session(env, task) as session:
        await session.reset()
        return [await session.step(action) for action in actions], session


async def test_it_opens_with_the_system_prompt_and_the_task():
    async with open_session(shop(system="Be brief."), TASK) as session:
        step = await session.reset()
    assert [message.text for message in step.messages] == ["Be brief.", "Do it."]


async def test_a_plain_message_ends_it():
    [step], _ = await stepped(shop(), text_message(Role.ASSISTANT, "done"))
    assert step.end is End.DONE
    assert step.terminated
    assert not step.truncated


async def test_a_tool_call_is_answered_and_it_goes_on():
    [step], session = await stepped(shop(), calling(add(3)))
    assert step.messages[0].results[0].text == "3"
    assert step.end is None
    assert session.world.state == {"sum": 3}


async def test_several_calls_are_answered_in_the_order_they_were_asked():
    [step], _ = await stepped(shop(), calling(add(1, "a"), ToolCall("b", "shout", {"text": "x"}), add(2, "c")))
    assert [(result.call, result.text) for result in step.messages[0].results] == [("a", "1"), ("b", "X"), ("c", "3")]


async def test_an_unknown_tool_is_told_to_the_agent_with_what_there_is():
    [step], _ = await stepped(shop(), calling(ToolCall("c", "subtract", {})))
    assert step.messages[0].results[0].error
    assert "`add`, `shout`" in step.messages[0].results[0].text


async def test_a_million_calls_in_one_turn_are_not_all_made():
    [step], session = await stepped(shop(), calling(*[add(1, str(n)) for n in range(MAX_CALLS + 5)]))
    assert session.world.state["sum"] == MAX_CALLS
    assert sum("Not run" in result.text for result in step.messages[0].results) == 5


async def test_the_turn_limit_truncates_after_the_last_turn_has_acted():
    steps, session = await stepped(shop(limits=Limits(turns=2)), calling(add(1)), calling(add(1)))
    assert [step.end for step in steps] == [None, End.TURN_LIMIT]
    assert steps[-1].truncated
    assert session.world.state["sum"] == 2
    assert steps[-1].events[-1].kind == "limit"


async def test_the_token_limit_counts_what_the_agent_sampled():
    async with open_session(shop(limits=Limits(tokens=10)), TASK) as session:
        await session.reset()
        assert (await session.step(calling(add(1)), num_tokens=9)).end is None
        assert (await session.step(calling(add(1)), num_tokens=1)).end is End.TOKEN_LIMIT


async def test_a_task_may_have_its_own_limits():
    [step], _ = await stepped(shop(), calling(add(1)), task=Task("one", prompt="x", limits={"turns": 1}))
    assert step.end is End.TURN_LIMIT


async def test_oversized_output_is_cut_with_a_marker_and_kept_whole():
    blobs = MemoryBlobs()
    async with open_session(shop(limits=Limits(tool_output_chars=30)), TASK, blobs=blobs) as session:
        await session.reset()
        step = await session.step(calling(ToolCall("c", "shout", {"text": "a" * 50 + "b" * 50})))
    result = step.messages[0].results[0]
    assert "70 of 100 characters cut" in result.text
    assert result.text.startswith("A" * 20 + "\n")
    assert result.text.endswith("\n" + "B" * 10)
    assert await blobs.get(result.whole) == b"A" * 50 + b"B" * 50
    assert step.events[0].kind == "tool_output_cut"


async def test_tool_results_beyond_the_rollouts_budget_are_cut_with_a_notice_and_kept_nowhere():
    env = Environment("loud", limits=Limits(rollout_output_bytes=1000, tool_output_chars=300))

    @env.tool
    async def shout(chars: int) -> str:
        """Shout."""
        return "\u00e4" * chars

    calls = [calling(ToolCall("c", "shout", {"chars": chars})) for chars in (400, 400, 1, 0)]
    steps, _ = await stepped(env, *calls)
    texts = [step.messages[0].results[0].text for step in steps]
    assert "100 of 400 characters cut here" in texts[0]
    assert texts[1] == "\u00e4" * 100 + "\n[600 bytes cut: this rollout's 1000 bytes of tool results are used up]"
    assert texts[2] == "[2 bytes cut: this rollout's 1000 bytes of tool results are used up]"
    assert texts[3] == ""
    assert [event.kind for step in steps for event in step.events] == ["tool_output_cut", *["tool_output_budget"] * 2]
    assert steps[0].messages[0].results[0].whole
    assert steps[1].messages[0].results[0].whole is None


async def test_a_tool_that_overruns_is_told_to_the_agent_and_recorded():
    env = Environment("slow", limits=Limits(tool_s=0.05))

    @env.tool
    async def wait() -> None:
        """Wait."""
        await anyio.sleep_forever()

    [step], _ = await stepped(env, calling(ToolCall("c", "wait", {})))
    assert "timed out" in step.messages[0].results[0].text
    assert step.messages[0].results[0].error
    assert [event.kind for event in step.events] == ["tool_timeout"]


async def test_a_tool_that_crashes_fails_the_rollout_if_the_author_says_so():
    env = Environment("broken", on_crash="fail")

    @env.tool
    def divide() -> float:
        """Divide."""
        return 1 / 0

    with pytest.raises(AuthorError, match="ZeroDivisionError"):
        await stepped(env, calling(ToolCall("c", "divide", {})))


async def test_a_tool_error_is_an_observation():
    env = Environment("strict")

    @env.tool
    def never() -> None:
        """Never."""
        raise ToolError("not today")

    [step], _ = await stepped(env, calling(ToolCall("c", "never", {})))
    assert step.messages[0].results[0].text == "not today"


@pytest.mark.parametrize("on_breach", list(OnBreach))
async def test_a_broken_constraint_has_its_declared_consequence(on_breach):
    rule = Constraint(id="twice", tool="add", at_most=2, on_breach=on_breach, points=5)
    steps, session = await stepped(shop(constraints=[rule]), *[calling(add(1))] * 3)
    last = steps[-1]
    assert last.events[0].kind == "breach"
    assert session.world.state["sum"] == (3 if on_breach is OnBreach.PENALTY else 2)
    assert last.end is (End.BREACH if on_breach is OnBreach.END else None)
    assert (await session.gather("")).penalties == ({"twice": 5.0} if on_breach is OnBreach.PENALTY else {})


async def test_a_forbidden_action_is_recognised_by_its_arguments():
    rule = Constraint(id="small", tool="*", where={"amount": "[0-9]{3}"})
    steps, session = await stepped(shop(constraints=[rule]), calling(add(99)), calling(add(100)))
    assert session.world.state["sum"] == 99
    assert "forbidden" in steps[1].messages[0].results[0].text


async def test_setup_sees_no_key():
    env = Environment("secret")
    seen = []

    @env.setup
    def put(world, task):
        seen.extend([task.key, world.task.key])

    async with open_session(env, Task("one", key={"answer": 42})):
        pass
    assert seen == [{}, {}]


async def test_setup_that_overruns_is_the_environments_timeout():
    env = Environment("slow", limits=Limits(setup_s=0.05))

    @env.setup
    async def put(world, task):
        await anyio.sleep_forever()

    with pytest.raises(AuthorError) as caught:
        async with open_session(env, TASK):
            pass
    assert caught.value.kind == "timeout"


async def test_what_finish_saw_is_evidence_and_it_sees_no_key():
    env = Environment("counter")

    @env.finish
    def look(world, task):
        world.state["seen"] = [world.state.get("sum"), task.key, task.id]

    async with open_session(env, Task("one", key={"answer": 42})) as session:
        session.world.state["sum"] = 3
        record = await session.gather("")
    assert record.state == {"sum": 3, "seen": [3, {}, "one"]}


@pytest.mark.parametrize("limits", [Limits(), Limits(setup_s=0.05)], ids=["raises", "overruns"])
async def test_a_finish_that_fails_is_noted_or_fails_the_rollout(limits):
    env = Environment("careless", limits=limits, on_crash="fail")

    @env.finish
    async def look(world, task):
        if limits.setup_s == 0.05:
            await anyio.sleep_forever()
        raise ValueError("no such table")

    async with open_session(env, TASK) as session:
        with pytest.raises(AuthorError) as caught:
            await session.gather("")
    assert caught.value.kind == ("timeout" if limits.setup_s == 0.05 else "crash")
    env.on_crash = "grade"
    async with open_session(env, TASK) as session:
        assert (await session.gather("my answer")).answer == "my answer"
        (event,) = session.late_events()
        assert not session.late_events()
    assert event.detail["tool"] == "@env.finish"
    assert event.detail["signature"].startswith("timeout" if limits.setup_s == 0.05 else "ValueError at test_session.py:")


async def test_the_environment_may_answer_plain_messages():
    env = Environment("talk")

    @env.user
    def reply(world, text):
        world.state["said"] = text
        return None if text == "bye" else f"You said {text}."

    steps, _ = await stepped(env, text_message(Role.ASSISTANT, "hello"), text_message(Role.ASSISTANT, "bye"))
    assert steps[0].messages[0].text == "You said hello."
    assert steps[1].end is End.DONE


async def test_stepping_after_the_end_breaks_the_contract():
    with pytest.raises(HarnessError, match="after the end"):
        await stepped(shop(), text_message(Role.ASSISTANT, "done"), text_message(Role.ASSISTANT, "again"))


async def test_every_rollout_of_a_task_draws_the_same_numbers():
    draws = []
    for _ in range(2):
        async with open_session(shop(), TASK) as session:
            draws.append([session.world.rng.random() for _ in range(3)])
    assert draws[0] == draws[1]


async def test_two_tools_of_one_name_are_refused():
    env = shop()
    env.tool(name="add")(lambda: None)
    with pytest.raises(ConfigError, match="two tools are named `add`"):
        await stepped(env)


async def test_an_image_without_a_backend_is_refused():
    with pytest.raises(ConfigError, match="image `host`"):
        await stepped(Environment("boxed", image="host"))


async def test_render_shows_a_person_where_things_stand():
    async with open_session(shop(limits=Limits(turns=4)), TASK) as session:
        await session.reset()
        await session.step(calling(add(2)))
        shown = await session.render()
    assert "user: Do it." in shown
    assert '-> add({"amount":2})' in shown
    assert "<- 2" in shown
    assert "turn 1 of 4" in shown


class Machine:
    """A backend whose sandboxes can be told to misbehave."""

    def __init__(self, *, hang_open=False, hang_close=False):
        self.hang_open, self.hang_close, self.closed = hang_open, hang_close, False

    async def prepare(self, image):
        pass

    def open(self, image, network, limits):
        return self

    async def probe(self):
        return {}

    async def __aenter__(self):
        from sandlot.sandbox.memory import MemoryFiles

        if self.hang_open:
            await anyio.sleep_forever()
        return MemoryFiles()

    async def __aexit__(self, *error):
        if self.hang_close:
            await anyio.sleep_forever()
        self.closed = True


async def test_a_sandbox_that_does_not_open_is_the_sandboxs_timeout():
    env = Environment("boxed", image="host", limits=Limits(provision_s=0.05))
    with pytest.raises(SandboxError) as caught:
        async with open_session(env, TASK, backend=Machine(hang_open=True)):
            pass
    assert caught.value.kind == "timeout"


async def test_a_sandbox_that_does_not_close_is_given_up_on_and_blamed():
    env = Environment("boxed", image="host", limits=Limits(teardown_s=0.05))
    with pytest.raises(SandboxError, match="teardown"):
        async with open_session(env, TASK, backend=Machine(hang_close=True)):
            pass


async def test_cancelling_still_closes_the_sandbox():
    machine = Machine()
    with anyio.move_on_after(0.05):
        async with open_session(Environment("boxed", image="host"), TASK, backend=machine):
            await anyio.sleep_forever()
    assert machine.closed


async def test_of_several_rules_a_call_breaks_the_strictest_decides():
    rules = [
        Constraint(id="dear", tool="*", on_breach=OnBreach.PENALTY, points=1),
        Constraint(id="never", tool="add", on_breach=OnBreach.REFUSE),
    ]
    [step], session = await stepped(shop(constraints=rules), calling(add(1)))
    assert step.messages[0].results[0].error
    assert session.world.state == {}
    assert (await session.gather("")).penalties == {"dear": 1.0}


async def test_a_sync_tool_is_not_charged_for_the_one_before_it():
    import time

    env = Environment("slow", limits=Limits(tool_s=0.3))

    @env.tool
    def nap() -> str:
        """Nap."""
        time.sleep(0.2)
        return "rested"

    [step], _ = await stepped(env, calling(ToolCall("a", "nap"), ToolCall("b", "nap")))
    assert [result.text for result in step.messages[0].results] == ["rested", "rested"]


async def test_a_session_in_other_hands_keeps_time_itself():
    env = shop(limits=Limits(time_s=0.05))
    async with open_session(env, TASK) as session:
        await session.reset()
        await anyio.sleep(0.1)
        assert (await session.step(calling(add(1)))).end is End.TIME_LIMIT


@pytest.mark.parametrize("name", ["../up", "", "a b", "x" * 65])
def test_a_name_that_is_no_name_is_refused(name):
    with pytest.raises(ConfigError, match="environment name"):
        Environment(name)


def test_a_network_there_is_not_is_refused():
    with pytest.raises(ConfigError, match="intrenet"):
        Environment("net", network="intrenet")
