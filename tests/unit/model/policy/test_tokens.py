import anyio
import anyio.lowlevel
import msgspec
import pytest

from builders.model_folders import FAMILIES
from fakes.token_models import ForcedModel, TinyModel
from sandlot.analysis.tokens.faults import structure_faults
from sandlot.core.branching import DriftKind
from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Sampled, Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.tokens import exact_leaves, packed_ids, token_path, unpacked_ids
from sandlot.core.trace import Message, Node, Text, ToolCall, ToolResult, Trace, text_message
from sandlot.core.types import Role
from sandlot.model.policy.tokens import token_policies
from sandlot.model.render.open import open_renderer

TASK = Task("t", prompt="?")
LOOK = ToolSpec(name="look_up", description="", parameters={"type": "object", "properties": {"word": {"type": "string"}}})
CALL = Message(role=Role.ASSISTANT, parts=(Text("I look."), ToolCall("", "look_up", {"word": "x"})))
RESULT = Message(role=Role.TOOL, parts=(ToolResult("turn0_0", "found"),))


@pytest.fixture(scope="module", params=["rookie", "smollm2", "qwen3", "llama3"])
def renderer(request, tmp_path_factory):
    return open_renderer(FAMILIES[request.param](tmp_path_factory.mktemp(request.param)))


def opening():
    trace = Trace(run="r", task="t", rollout=0, seed=1)
    trace.append(Node(message=text_message(Role.SYSTEM, "Be brief.")))
    return trace, trace.append(Node(message=text_message(Role.USER, "What is x?"), parent=0))


async def take(policy, trace, leaf, *answers, tools=(LOOK,)):
    """One turn and what the environment answers; the new leaf."""
    leaf = trace.append(await policy.turn(trace, leaf, tools))
    for answer in answers:
        leaf = trace.append(Node(message=answer, parent=leaf))
    return leaf


async def test_a_rollout_holds_the_very_tokens_that_were_given_and_sampled(renderer):
    answer = text_message(Role.ASSISTANT, "It is found.")
    model = ForcedModel([renderer.turn(CALL), renderer.turn(answer)])
    trace, leaf = opening()
    async with token_policies(model, renderer, Sampling()).policy(TASK, seed=5) as policy:
        leaf = await take(policy, trace, leaf, RESULT)
        leaf = await take(policy, trace, leaf)
    first, second = trace.turns()
    assert first.message.calls[0].arguments == {"word": "x"}
    assert (first.stop, second.stop, second.message.text) == ("calls", "stop", "It is found.")
    path = token_path(trace, leaf)
    assert path.ids.tolist() == model.prompts[1] + renderer.turn(answer)
    assert model.prompts[1] == renderer.render([node.message for node in trace.nodes[:4]], (LOOK,))
    assert unpacked_ids(second.context) == model.prompts[1][len(model.prompts[0]) + len(first.tokens) :]
    assert path.mask.sum() == len(first.tokens) + len(second.tokens)
    assert second.usage.prompt_tokens == len(model.prompts[1])
    assert trace.trainable
    assert structure_faults(trace) == []
    assert trace.events == []


async def test_turns_differ_by_seed_and_repeat_with_it(renderer):
    async def turn(seed):
        trace, leaf = opening()
        async with token_policies(TinyModel(), renderer, Sampling(max_tokens=6)).policy(TASK, seed) as policy:
            return (await policy.turn(trace, leaf, ())).tokens.ids

    assert await turn(1) == await turn(1)
    assert await turn(1) != await turn(2)


async def test_the_session_is_released_even_when_the_rollout_is_cancelled(renderer):
    model = TinyModel()
    policies = token_policies(model, renderer, Sampling())
    with anyio.CancelScope() as scope:
        async with policies.policy(TASK, seed=1, rollout=3):
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert len(model.released) == 1
    assert model.released[0].startswith("t/3/")


async def test_a_turn_may_use_what_is_left_of_the_context_and_a_full_one_is_an_error(renderer):
    trace, leaf = opening()
    num_given = len(renderer.render([node.message for node in trace.nodes], ()))
    asked = []

    class Asked(TinyModel):
        def choose(self, ids, sampling, stop_ids):
            asked.append(sampling.max_tokens)
            return [7]

    async with token_policies(Asked(context=num_given + 3), renderer, Sampling()).policy(TASK, 1) as policy:
        node = await policy.turn(trace, leaf, ())
    assert asked == [3]
    assert node.stop == "length"
    async with token_policies(Asked(context=num_given), renderer, Sampling()).policy(TASK, 1) as policy:
        with pytest.raises(ModelError) as caught:
            await policy.turn(trace, leaf, ())
    assert caught.value.kind == "context"


async def test_a_turn_cut_off_is_closed_in_the_next_context(renderer):
    cut_off = renderer.turn(text_message(Role.ASSISTANT, "It is"))[:-1]
    model = ForcedModel([cut_off, renderer.turn(text_message(Role.ASSISTANT, "done"))])
    trace, leaf = opening()
    async with token_policies(model, renderer, Sampling()).policy(TASK, 1) as policy:
        leaf = await take(policy, trace, leaf, text_message(Role.USER, "Go on."))
        await take(policy, trace, leaf)
    first, second = trace.turns()
    assert first.stop == "length"
    assert unpacked_ids(first.tokens.ids) == cut_off
    assert unpacked_ids(second.context)[0] in renderer.stop_ids


async def test_an_intervention_leaves_the_sampled_turn_in_its_branch_and_says_so(renderer):
    model = ForcedModel([renderer.turn(CALL), renderer.turn(text_message(Role.ASSISTANT, "ok"))])
    trace, leaf = opening()
    async with token_policies(model, renderer, Sampling()).policy(TASK, 1) as policy:
        sampled = trace.append(await policy.turn(trace, leaf, (LOOK,)))
        instead = trace.append(Node(message=text_message(Role.ASSISTANT, "No: stop."), parent=leaf))
        asked = trace.append(Node(message=text_message(Role.USER, "Why?"), parent=instead))
        last = await take(policy, trace, asked)
    (event,) = trace.events
    assert (event.kind, event.detail["kind"]) == ("drift", DriftKind.FORK)
    assert event.detail["sampled_lost"] == len(trace.nodes[sampled].tokens)
    assert token_path(trace, last).ids.tolist()[: -len(trace.nodes[last].tokens)] == model.prompts[1]
    assert list(exact_leaves(trace)) == [sampled, last]
    assert structure_faults(trace) == []


async def test_a_compacted_history_is_a_branch_that_begins_anew(renderer):
    model = ForcedModel([renderer.turn(CALL), renderer.turn(text_message(Role.ASSISTANT, "ok"))])
    trace, leaf = opening()
    async with token_policies(model, renderer, Sampling()).policy(TASK, 1) as policy:
        leaf = await take(policy, trace, leaf, RESULT)
        summary = trace.append(Node(message=text_message(Role.USER, "So far: x was found. Go on.")))
        last = await take(policy, trace, summary)
    assert [event.detail["kind"] for event in trace.events] == [DriftKind.FORK]
    assert token_path(trace, last).ids.tolist()[: -len(trace.nodes[last].tokens)] == model.prompts[1]
    assert structure_faults(trace) == []


class NoBridge:
    """A renderer of someone else's, which renders the whole every time, and spells past turns its own way."""

    def __init__(self, renderer, respell=lambda message: message):
        self.inner, self.respell = renderer, respell
        self.name, self.stop_ids, self.parse = "no-bridge", renderer.stop_ids, renderer.parse

    def render(self, messages, tools):
        return self.inner.render([self.respell(message) for message in messages], tools)

    def bridge(self, ids, messages):
        return None


async def test_without_a_bridge_a_render_that_extends_the_tokens_goes_on(renderer):
    model = ForcedModel([renderer.turn(CALL), renderer.turn(text_message(Role.ASSISTANT, "ok"))])
    trace, leaf = opening()
    async with token_policies(model, NoBridge(renderer), Sampling()).policy(TASK, 1) as policy:
        leaf = await take(policy, trace, leaf, RESULT)
        last = await take(policy, trace, leaf)
    assert trace.events == []
    assert list(exact_leaves(trace)) == [last]


async def test_a_past_turn_spelled_otherwise_is_realigned_beside_what_was_sampled(renderer):
    def respell(message):
        calls = tuple(ToolCall(call.id, call.name, call.arguments | {"times": 1}) for call in message.calls)
        return msgspec.structs.replace(message, parts=(*message.parts[:1], *calls)) if calls else message

    model = ForcedModel([renderer.turn(CALL), renderer.turn(text_message(Role.ASSISTANT, "ok"))])
    trace, leaf = opening()
    async with token_policies(model, NoBridge(renderer, respell), Sampling()).policy(TASK, 1) as policy:
        leaf = await take(policy, trace, leaf, RESULT)
        sampled = trace.nodes[leaf].parent
        last = await take(policy, trace, leaf)
    (event,) = trace.events
    assert (event.kind, event.detail["kind"]) == ("drift", DriftKind.REALIGN)
    assert 0 < event.detail["sampled_lost"] < len(trace.nodes[sampled].tokens)
    path = token_path(trace, last)
    assert path.ids.tolist()[: -len(trace.nodes[last].tokens)] == model.prompts[1]
    assert path.mask.sum() == len(trace.nodes[last].tokens)  # what was respelled is given, not trained on
    assert list(exact_leaves(trace)) == [sampled, last]
    assert structure_faults(trace) == []


async def test_other_tools_than_before_are_another_conversation(renderer):
    model = ForcedModel([renderer.turn(CALL), renderer.turn(text_message(Role.ASSISTANT, "ok"))])
    trace, leaf = opening()
    async with token_policies(model, renderer, Sampling()).policy(TASK, 1) as policy:
        leaf = await take(policy, trace, leaf, RESULT)
        last = await take(policy, trace, leaf, tools=(LOOK, msgspec.structs.replace(LOOK, name="other")))
    assert [(event.detail["kind"], event.detail["cause"]) for event in trace.events] == [
        (DriftKind.FORK, "other tools than before")
    ]
    assert token_path(trace, last).ids.tolist()[: -len(trace.nodes[last].tokens)] == model.prompts[1]


@pytest.mark.parametrize(
    "broken",
    [
        Sampled(ids=b"", logprobs=b"", versions=(), stop="stop"),
        Sampled(ids=packed_ids([1, 2]), logprobs=b"\0" * 4, versions=((2, 0),), stop="stop"),
        Sampled(ids=packed_ids([1, 2]), logprobs=b"\0" * 8, versions=((1, 0),), stop="stop"),
        Sampled(ids=b"\0" * 7, logprobs=b"\0" * 4, versions=((1, 0),), stop="stop"),
    ],
)
async def test_tokens_that_are_not_whole_are_refused(renderer, broken):
    class Broken(TinyModel):
        async def sample(self, ids, sampling, *, stop_ids=(), session=""):
            return broken

    trace, leaf = opening()
    async with token_policies(Broken(), renderer, Sampling()).policy(TASK, 1) as policy:
        with pytest.raises(ModelError) as caught:
            await policy.turn(trace, leaf, ())
    assert caught.value.kind == "tokens"


async def test_each_turn_is_sampled_with_a_seed_of_its_own_and_the_same_rollout_again_with_the_same(renderer):
    async def seeds(seed: int) -> list[int | None]:
        used = []

        class Noting(ForcedModel):
            def choose(self, ids, sampling, stop_ids):
                used.append(sampling.seed)
                return super().choose(ids, sampling, stop_ids)

        model = Noting([renderer.turn(CALL), renderer.turn(text_message(Role.ASSISTANT, "It is found."))])
        trace, leaf = opening()
        async with token_policies(model, renderer, Sampling()).policy(TASK, seed=seed) as policy:
            await take(policy, trace, await take(policy, trace, leaf, RESULT))
        return used

    first = await seeds(5)
    assert len(set(first)) == 2
    assert first == await seeds(5)
    assert not set(first) & set(await seeds(6))
