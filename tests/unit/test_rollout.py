"""One rollout: whatever happens becomes an end and an outcome, and no failure has a reward."""

import asyncio
import threading

import anyio
import anyio.lowlevel
import msgspec
import pytest

from drive.leftovers import no_leftovers
from sandlot.core.concurrency import author, threads
from sandlot.core.crashes import crashes_in, may_stop_runs
from sandlot.core.errors import ModelError, SandboxError, SandboxOutOfMemory, StoppedByHook, StoreError, ToolError
from sandlot.core.limits import Constraint, Limits, OnBreach
from sandlot.core.ports.sandbox import Survey
from sandlot.core.task import Task
from sandlot.core.trace import Cancelled, Event, Failed, Message, Node, Reasoning, Scored, Text, ToolCall, Trace
from sandlot.core.types import End, Role, Side
from sandlot.env.environment import Environment
from sandlot.grade import gather
from sandlot.harness.tool_loop import ToolLoop
from sandlot.model.policy.scripted import ScriptedPolicies, scripted_policies
from sandlot.rollout import record_outcome, run_rollout
from sandlot.store.blobs import MemoryBlobs
from sandlot.wiring.parts import Grading, RolloutParts

TASK = Task("one", prompt="Say yes.", key={"word": "yes"})


def quiz(**options) -> Environment:
    env = Environment("quiz", **options)

    @env.check(points=2)
    def right(evidence, task):
        return evidence.answer == task.key["word"]

    @env.tool
    async def look() -> str:
        """Look."""
        return "nothing to see"

    @env.solution
    async def solve(agent, task):
        await agent.call("look")
        await agent.say(task.key["word"])

    return env


class Turns:
    """Policies that take these turns, one after the other; an error among them is raised."""

    name = "turns"

    def __init__(self, *turns):
        self.turns = list(turns)

    def policy(self, task, seed, rollout=0):
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        return None

    async def turn(self, trace, leaf, tools):
        turn = self.turns[trace.num_turns]
        if isinstance(turn, Exception):
            raise turn
        return turn if isinstance(turn, Node) else saying(turn, leaf)


def saying(text, parent=None, stop="stop", **fields):
    return Node(message=Message(role=Role.ASSISTANT, parts=(Text(text),)), parent=parent, sampled=True, stop=stop, **fields)


async def rolled(env, policies, *, hooks=(), harness=None):
    parts = RolloutParts(grading=Grading(env=env), policies=policies, harness=harness or ToolLoop(hooks))
    return await run_rollout(parts, TASK, run="test", rollout=0, blobs=MemoryBlobs())


async def test_a_golden_rollout_leaves_nothing_for_the_garbage_collector():
    policies = scripted_policies("golden", quiz().marked.solution)
    await rolled(quiz(), policies)
    with no_leftovers():
        for _ in range(3):
            assert (await rolled(quiz(), policies)).reward == 1.0


async def test_a_golden_rollout_is_done_and_scored():
    trace = await rolled(quiz(), scripted_policies("golden", quiz().marked.solution))
    assert (trace.end, str(trace.outcome.score), trace.reward) == (End.DONE, "2/2", 1.0)
    assert trace.num_turns == 2
    assert set(trace.phases) == {"open", "model", "tools", "gather", "close", "waiting", "grade"}


async def test_a_wrong_answer_is_scored_zero():
    trace = await rolled(quiz(), Turns("no"))
    assert (trace.end, trace.reward) == (End.DONE, 0.0)


async def test_running_out_of_turns_is_graded():
    trace = await rolled(quiz(limits=Limits(turns=3)), scripted_policies("loop"))
    assert (trace.end, trace.reward) == (End.TURN_LIMIT, 0.0)


async def test_running_out_of_time_is_graded():
    trace = await rolled(quiz(limits=Limits(time_s=0.05)), scripted_policies("hang"))
    assert (trace.end, trace.reward) == (End.TIME_LIMIT, 0.0)
    assert trace.events[-1].detail["limit"] == "time_limit"


async def test_a_refusal_is_graded():
    trace = await rolled(quiz(), scripted_policies("refuse"))
    assert (trace.end, trace.reward) == (End.REFUSED, 0.0)


async def test_an_answer_cut_off_by_its_token_cap_ends_at_the_token_limit():
    trace = await rolled(quiz(), Turns(saying("ye", 0, stop="length")))
    assert (trace.end, trace.reward) == (End.TOKEN_LIMIT, 0.0)
    assert trace.events == [Event(kind="turn_cut", turn=1, detail={"chars": 2})]


async def test_a_conversation_that_no_longer_fits_ends_at_the_token_limit_and_says_so():
    trace = await rolled(quiz(), Turns(ModelError("too long", kind="context")))
    assert (trace.end, trace.reward) == (End.TOKEN_LIMIT, 0.0)
    assert trace.events[0].kind == "context_overflow"


async def test_a_breach_that_ends_is_graded():
    rule = Constraint(id="hands-off", tool="look", on_breach=OnBreach.END)
    trace = await rolled(quiz(constraints=[rule]), scripted_policies("golden", quiz().marked.solution))
    assert (trace.end, trace.reward) == (End.BREACH, 0.0)


async def test_a_penalty_takes_points_away():
    rule = Constraint(id="hands-off", tool="look", on_breach=OnBreach.PENALTY, points=1)
    trace = await rolled(quiz(constraints=[rule]), scripted_policies("golden", quiz().marked.solution))
    assert (str(trace.outcome.score), trace.reward) == ("1/2", 0.5)
    assert trace.outcome.score.checks[-1].id == "constraint:hands-off"


def broken(where: str, *, hang: bool = False) -> Environment:
    """An environment in which one part raises or never comes back."""
    env = Environment("broken", limits=Limits(setup_s=0.05, grade_s=0.1) if hang else None)

    def at(place):
        async def fail(*args, **kwargs):
            if place == where and hang:
                await anyio.sleep_forever()
            if place == where:
                raise RuntimeError("boom")
            return True

        return fail

    env.setup(at("setup"))
    env.check(points=1, id="right")(at("check"))
    env.user(at("user"))

    @env.tool
    async def look() -> str:
        """Look."""
        await at("tool")()
        return "ok"

    return env


@pytest.mark.parametrize(
    ("where", "hang", "side", "kind"),
    [
        ("setup", False, Side.ENVIRONMENT, "crash"),
        ("setup", True, Side.ENVIRONMENT, "timeout"),
        ("check", False, Side.GRADER, "crash"),
        ("check", True, Side.GRADER, "timeout"),
    ],
)
async def test_whatever_breaks_blames_its_side_and_has_no_reward(where, hang, side, kind):
    env = broken(where, hang=hang)
    env.marked.user = None
    trace = await rolled(env, Turns("yes"))
    assert isinstance(trace.outcome, Failed)
    assert (trace.outcome.side, trace.outcome.kind) == (side, kind)
    assert trace.reward is None
    assert trace.end is (End.DONE if side is Side.GRADER else End.CUT)


@pytest.mark.parametrize("error", [ModelError("down", kind="connect"), RuntimeError("a bug in the policy")])
async def test_a_policy_that_fails_is_the_models_failure(error):
    trace = await rolled(quiz(), Turns(error))
    assert (trace.end, trace.outcome.side, trace.reward) == (End.CUT, Side.MODEL, None)


async def test_a_golden_solution_that_raises_is_the_environments_failure():
    async def solve(agent, task):
        raise KeyError("month")

    trace = await rolled(quiz(), scripted_policies("golden", solve))
    assert trace.outcome.side is Side.ENVIRONMENT
    assert "KeyError" in trace.outcome.message


@pytest.mark.parametrize("error", [IndexError("lost the thread"), GeneratorExit(), asyncio.CancelledError(), SystemExit(2)])
async def test_a_harness_that_raises_is_the_harness_failure(error):
    class Loose(ToolLoop):
        name = "loose"

        async def play(self, session, policy, trace):
            raise error

    trace = await rolled(quiz(), Turns("yes"), harness=Loose())
    assert (trace.outcome.side, trace.reward) == (Side.HARNESS, None)


async def test_state_that_cannot_be_stored_is_the_environments_failure():
    env = quiz()
    env.setup(lambda world, task: world.state.update(lock=object()))
    trace = await rolled(env, Turns("yes"))
    assert trace.outcome.side is Side.ENVIRONMENT
    assert "lock" in trace.outcome.message


async def test_a_failure_in_a_group_of_parallel_tools_is_named_and_not_called_exception_group():
    env = Environment("pair")
    env.check(points=1, id="any")(lambda evidence: True)

    @env.tool
    async def good() -> str:
        """Good."""
        return "ok"

    @env.tool
    async def bad() -> str:
        """Bad."""
        raise ValueError("no such month")

    both = Message(role=Role.ASSISTANT, parts=(ToolCall("a", "good"), ToolCall("b", "bad")))
    trace = await rolled(env, Turns(Node(message=both, sampled=True, parent=0), "done"))
    assert [(event.detail["tool"], event.detail["message"]) for event in trace.events] == [
        ("bad", "tool `bad`: ValueError: no such month")
    ]
    assert [result.error for result in trace.nodes[2].message.results] == [False, True]


async def test_a_hook_may_put_another_message_in_place_of_the_sampled_one():
    class Coach:
        async def after_turn(self, trace, node):
            return Message(role=Role.ASSISTANT, parts=(Text("yes"),)) if node.message.text == "no" else None

        async def after_step(self, trace, step):
            pass

    trace = await rolled(quiz(), Turns("no"), hooks=[Coach()])
    assert trace.reward == 1.0
    assert [(node.message.text, node.sampled, node.parent) for node in trace.nodes[1:]] == [("no", True, 0), ("yes", False, 0)]
    assert trace.events[0].kind == "intervention"


async def test_a_hook_may_stop_a_rollout_which_is_then_cancelled():
    class Guard:
        async def after_turn(self, trace, node):
            raise StoppedByHook("enough")

        async def after_step(self, trace, step):
            pass

    trace = await rolled(quiz(), Turns("yes"), hooks=[Guard()])
    assert (trace.outcome, trace.reward) == (Cancelled("enough"), None)


async def test_cancelling_is_not_swallowed():
    with anyio.move_on_after(0.05) as scope:
        await rolled(quiz(), scripted_policies("hang"))
    assert scope.cancelled_caught


async def test_a_blocking_setup_is_given_up_on_at_its_deadline_and_counted():
    import threading

    release = threading.Event()
    env = quiz(limits=Limits(setup_s=0.05))

    @env.setup
    def sleepy(world, task):
        release.wait()

    trace = await rolled(env, Turns("yes"))
    assert (trace.outcome.side, trace.outcome.kind) == (Side.ENVIRONMENT, "timeout")
    name = author.name_of(sleepy)
    assert threads.ABANDONED[name] == 1
    release.set()
    with anyio.fail_after(5):
        while threads.ABANDONED[name]:
            await anyio.lowlevel.checkpoint()


async def test_reasoning_is_kept_in_the_trace():
    node = Node(message=Message(role=Role.ASSISTANT, parts=(Reasoning("hm"), Text("yes"))), sampled=True, parent=0)
    trace = await rolled(quiz(), Turns(node))
    assert trace.reward == 1.0
    assert trace.nodes[-1].message.parts[0] == Reasoning("hm")


async def test_a_trace_without_token_ids_says_it_cannot_be_trained_on():
    assert not (await rolled(quiz(), Turns("yes"))).trainable


async def test_the_key_is_nowhere_in_the_trace_of_an_agent_that_does_not_know_it():
    env = quiz()
    task = Task("one", prompt="Guess.", key={"word": "canary-4711"})
    parts = RolloutParts(grading=Grading(env=env), policies=Turns("no"), harness=ToolLoop())
    trace = await run_rollout(parts, task, run="test", rollout=0, blobs=MemoryBlobs())
    assert isinstance(trace.outcome, Scored)
    assert b"canary-4711" not in msgspec.json.encode(trace)


def test_scripted_policies_choose_by_seed():
    policies = scripted_policies("mixed:0.5", quiz().marked.solution)
    assert isinstance(policies, ScriptedPolicies)
    assert {type(policies.choose(TASK, seed)).__name__ for seed in range(20)} == {"function", "Player"}


# -- time that is not the agent's --------------------------------------------------------------------------------------


async def forever(*_):
    await anyio.sleep_forever()


async def test_an_environment_that_does_not_open_its_mouth_is_not_a_slow_agent():
    env = quiz(limits=Limits(time_s=0.05, setup_s=0.2))

    class Mute:
        open = forever

    env.marked.user = lambda world, task: Mute()
    trace = await rolled(env, Turns("yes"))
    assert (trace.outcome.side, trace.outcome.kind, trace.reward) == (Side.ENVIRONMENT, "timeout", None)


async def test_an_environment_that_does_not_reply_is_not_a_slow_agent():
    env = quiz(limits=Limits(time_s=0.05, tool_s=0.2))
    env.user(forever)
    trace = await rolled(env, Turns("yes"))
    assert (trace.end, trace.reward) == (End.DONE, 1.0)
    assert [(event.kind, event.detail["tool"], event.detail["signature"]) for event in trace.events] == [
        ("tool_crashed", "@env.user", f"timeout at test_rollout.py:{forever.__code__.co_firstlineno + 1} in forever")
    ]


async def test_a_hook_that_thinks_long_takes_none_of_the_agents_time():
    class Slow:
        async def after_turn(self, trace, node):
            await anyio.sleep(0.2)

        async def after_step(self, trace, step):
            pass

    trace = await rolled(quiz(limits=Limits(time_s=0.1)), Turns("yes"), hooks=[Slow()])
    assert (trace.end, trace.reward) == (End.DONE, 1.0)


async def test_an_endpoint_that_hangs_is_the_models_failure_not_a_slow_agent():
    from fakes.endpoint import Answer, FakeEndpoint
    from sandlot.wiring.config import AgentConfig, ModelConfig
    from sandlot.wiring.models import open_policies

    env = quiz(limits=Limits(time_s=0.5))
    async with (
        FakeEndpoint([], then=Answer(hang=True)) as endpoint,
        open_policies(ModelConfig(spec=f"openai:m@{endpoint.url}", patience_s=0.5), AgentConfig(), env) as policies,
    ):
        trace = await rolled(env, policies)
    assert (trace.outcome.side, trace.reward) == (Side.MODEL, None)


async def test_waiting_for_a_thread_counts_against_no_limit(monkeypatch):
    monkeypatch.setattr(threads, "MAX_THREADS", 1)
    env = quiz(limits=Limits(time_s=40, tool_s=30))
    held, released, ends = threading.Event(), threading.Event(), []

    @env.tool
    def rest() -> str:
        """Rest."""
        return "rested"

    def hold():
        held.set()
        released.wait()

    async def one():
        call = Node(message=Message(role=Role.ASSISTANT, parts=(ToolCall("c", "rest"),)), sampled=True, parent=0)
        trace = await rolled(env, Turns(call, "yes"))
        ends.append((trace.end, trace.nodes[2].message.results[0].text))

    async with anyio.create_task_group() as group:
        group.start_soon(threads.off_loop, "hold", hold)
        while not held.is_set():
            await anyio.lowlevel.checkpoint()
        group.start_soon(one)
        while not threads._threads().is_full:
            await anyio.lowlevel.checkpoint()
        put_clock_forward(100, monkeypatch)
        await anyio.wait_all_tasks_blocked()
        released.set()
    assert ends == [(End.DONE, "rested")]


def put_clock_forward(seconds: float, monkeypatch) -> None:
    """The event loop's clock, by which deadlines are cancelled."""
    loop = asyncio.get_running_loop()
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + seconds)


# -- what fails keeps its side -----------------------------------------------------------------------------------------


class Machine:
    """A backend whose sandboxes fail where they are told to."""

    def __init__(self, *, close=None, prepare_s=0.0):
        self.fail_close = close
        self.prepare_s = prepare_s

    async def prepare(self, image):
        await anyio.sleep(self.prepare_s)

    def open(self, image, network, limits):
        return self

    async def probe(self):
        return {}

    async def __aenter__(self):
        from sandlot.sandbox.memory import MemoryFiles

        self.files = MemoryFiles()
        return self.files

    async def __aexit__(self, *error):
        if self.fail_close:
            raise self.fail_close


async def in_a_machine(machine, policies, **limits):
    env = quiz(image="any", limits=Limits(**limits))
    parts = RolloutParts(grading=Grading(env=env, backend=machine), policies=policies, harness=ToolLoop())
    return await run_rollout(parts, TASK, run="test", rollout=0, blobs=MemoryBlobs())


async def gathered(snapshot, **limits):
    """A rollout whose files at the end are this snapshot."""
    machine = Machine()

    async def freeze():
        return snapshot

    class Leaves(Turns):
        async def turn(self, trace, leaf, tools):
            machine.files.freeze = freeze  # after setup's files were looked at
            return await super().turn(trace, leaf, tools)

    return await in_a_machine(machine, Leaves("yes"), **limits)


async def test_a_listing_that_overruns_after_the_end_costs_the_files_and_not_the_score(monkeypatch):
    class Hangs:
        survey = staticmethod(forever)

    monkeypatch.setattr(gather, "_LISTING_S", 0.1)
    trace = await gathered(Hangs())
    assert (trace.end, trace.reward) == (End.DONE, 1.0)
    assert trace.evidence.lost == "listing the files of the rollout: took longer than 0.1 s"
    assert [event.kind for event in trace.events] == ["evidence_cut"]


@pytest.mark.parametrize("way", ["refused", "slow"])
async def test_a_finish_that_the_agents_processes_keep_from_looking_is_graded_and_stops_no_run(way):
    env = quiz(image="any", limits=Limits(setup_s=0.05))

    @env.finish
    async def look(world, task):
        if way == "refused":
            raise SandboxError("it may start no more processes", kind="spawn")
        await anyio.sleep_forever()

    parts = RolloutParts(grading=Grading(env=env, backend=Machine()), policies=Turns("yes"), harness=ToolLoop())
    trace = await run_rollout(parts, TASK, run="test", rollout=0, blobs=MemoryBlobs())
    assert trace.reward == 1.0
    (crash,) = crashes_in(trace)
    assert crash.startswith("@env.finish: ")
    assert not may_stop_runs(crash)


async def test_reading_that_overruns_after_the_end_keeps_what_was_read():
    class Slow:
        async def survey(self):
            return Survey(sizes={"/a": 1, "/b": 300, **{f"/many/{number}": 200 for number in range(40)}})

        async def read(self, path):
            return b"1" if path == "/a" else b"2" * 200 if path.startswith("/many/") else await forever()

    trace = await gathered(Slow(), teardown_s=0.1)
    assert (trace.end, trace.reward) == (End.DONE, 1.0)
    assert {path: file.blob is not None for path, file in trace.evidence.files.items()} == {
        "/a": True,
        "/b": False,
        **{f"/many/{number}": True for number in range(40)},
    }
    (event,) = trace.events
    assert (event.kind, event.detail["files_not_kept"]) == ("evidence_cut", 1)


async def test_building_an_image_does_not_count_as_opening_the_sandbox():
    trace = await in_a_machine(Machine(prepare_s=0.3), Turns("yes"), provision_s=0.1)
    assert trace.reward is not None


async def test_a_failing_teardown_does_not_hide_what_failed_before_it():
    machine = Machine(close=SandboxError("stuck"))
    trace = await in_a_machine(machine, Turns(ModelError("down", kind="connect")))
    assert (trace.outcome.side, trace.outcome.kind) == (Side.MODEL, "connect")
    trace = await in_a_machine(machine, Turns("yes"))
    assert trace.reward == 1.0
    assert [(event.kind, event.detail["signature"], event.detail["message"]) for event in trace.events] == [
        ("teardown_failed", "sandbox/crash", "stuck")
    ]


async def test_several_failures_at_once_name_a_side():
    env = quiz()

    @env.tool
    async def dead() -> str:
        """Dead."""
        await anyio.lowlevel.checkpoint()
        raise SandboxError("died", kind="died")

    both = Message(role=Role.ASSISTANT, parts=(ToolCall("a", "dead"), ToolCall("b", "dead")))
    trace = await rolled(env, Turns(Node(message=both, sampled=True, parent=0)))
    assert (trace.outcome.side, trace.outcome.kind, trace.outcome.message) == (Side.SANDBOX, "died", "died")


async def test_a_state_that_cannot_be_made_is_the_environments_failure():
    trace = await rolled(quiz(state=lambda: 1 / 0), Turns("yes"))
    assert (trace.outcome.side, trace.reward) == (Side.ENVIRONMENT, None)


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_stray_cancellation_in_author_code_is_its_error(kind):
    import asyncio

    env = quiz()

    def odd() -> str:
        """Odd."""
        raise asyncio.CancelledError

    async def odd_async() -> str:
        """Odd."""
        raise asyncio.CancelledError

    env.tool(name="odd")(odd if kind == "sync" else odd_async)
    call = Node(message=Message(role=Role.ASSISTANT, parts=(ToolCall("c", "odd"),)), sampled=True, parent=0)
    trace = await rolled(env, Turns(call, "yes"))
    assert trace.reward == 1.0
    assert "CancelledError" in trace.events[0].detail["message"]


async def test_an_intervention_on_a_refusal_is_acted_on():
    class Coach:
        async def after_turn(self, trace, node):
            return Message(role=Role.ASSISTANT, parts=(ToolCall("c", "look"),)) if node.stop == "refusal" else None

        async def after_step(self, trace, step):
            pass

    trace = await rolled(quiz(), Turns(saying("no", 0, stop="refusal"), "yes"), hooks=[Coach()])
    assert (trace.end, trace.reward) == (End.DONE, 1.0)


# -- what an agent does to its own sandbox -----------------------------------------------------------------------------


async def test_an_agent_that_fills_its_sandboxs_memory_is_graded():
    env = quiz()

    @env.tool
    async def fill() -> str:
        """Fill."""
        raise SandboxOutOfMemory("its memory is full")

    both = Message(role=Role.ASSISTANT, parts=(ToolCall("a", "fill"), ToolCall("b", "fill"), ToolCall("c", "look")))
    trace = await rolled(env, Turns(Node(message=both, sampled=True, parent=0)))
    assert (trace.end, trace.reward) == (End.MEMORY_LIMIT, 0.0)
    assert trace.events == [Event(kind="limit", turn=1, detail={"limit": "memory_limit"})]
    assert [result.text for result in trace.nodes[-1].message.results] == [
        *["The sandbox has ended: its memory is full."] * 2,
        "nothing to see",
    ]


async def test_a_sandbox_that_is_out_of_memory_while_a_user_replies_ends_the_rollout_and_is_graded():
    env = quiz()

    @env.user
    async def reply(world, text):
        raise SandboxOutOfMemory("its memory is full")

    trace = await rolled(env, Turns("yes"))
    assert (trace.end, trace.reward) == (End.MEMORY_LIMIT, 1.0)


async def test_files_that_are_beyond_reading_leave_a_record_that_says_so_and_are_graded():
    machine = Machine()

    async def full():
        raise SandboxOutOfMemory("its memory is full")

    class Fills(Turns):
        async def turn(self, trace, leaf, tools):
            machine.files.freeze = full  # after setup's files were looked at
            return await super().turn(trace, leaf, tools)

    trace = await in_a_machine(machine, Fills("no"))
    assert (trace.end, trace.reward, trace.evidence.lost) == (End.DONE, 0.0, "its memory is full")
    assert [event.kind for event in trace.events] == ["evidence_cut"]


async def test_processes_that_do_not_end_cost_the_files_and_not_the_score(monkeypatch):
    monkeypatch.setattr(gather, "_ENDING_S", 0.01)
    machine = Machine()

    class Leaves(Turns):
        async def turn(self, trace, leaf, tools):
            machine.files.freeze = forever
            return await super().turn(trace, leaf, tools)

    trace = await in_a_machine(machine, Leaves("no"))
    assert (trace.end, trace.reward) == (End.DONE, 0.0)
    [event] = trace.events
    assert (event.kind, event.detail["lost"]) == ("evidence_cut", "ending the agent's processes: took longer than 0.01 s")


# -- the one catcher ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("odd"), Failed(Side.HARNESS, "crash", "ValueError: odd")),
        (
            ExceptionGroup("two", [KeyError("a"), KeyError("b")]),
            Failed(Side.HARNESS, "crash", "ExceptionGroup: two (2 sub-exceptions)"),
        ),
        (ExceptionGroup("one", [OSError("disk")]), Failed(Side.HARNESS, "crash", "OSError: disk")),
        (ToolError("nobody caught it"), Failed(Side.HARNESS, "crash", "nobody caught it")),
        (ModelError("down", kind="connect"), Failed(Side.MODEL, "connect", "down")),
        (StoppedByHook("enough"), Cancelled("enough")),
    ],
)
def test_whatever_is_raised_leaves_no_reward(error, outcome):
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    with record_outcome(trace):
        raise error
    left = msgspec.structs.replace(trace.outcome, frames=()) if isinstance(trace.outcome, Failed) else trace.outcome
    assert (left, trace.reward, trace.end) == (outcome, None, End.CUT)


def test_what_cannot_be_kept_stops_the_run():
    with pytest.raises(StoreError), record_outcome(Trace(run="r", task="t", rollout=0, seed=0)):
        raise StoreError("disk full")
