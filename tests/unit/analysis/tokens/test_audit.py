"""Every way tokens have been known to go wrong, injected into honest traces: each is caught, by code and by kind of looking."""

import copy

import anyio
import msgspec
import numpy as np
import pytest

from builders.model_folders import FAMILIES
from fakes.token_models import ForcedModel, tiny_decoder
from sandlot.analysis.tokens.audit import audit_tokens
from sandlot.analysis.tokens.faults import FaultClass, FaultCode
from sandlot.analysis.tokens.numbers import OTHER_KERNELS, SAME_CODE
from sandlot.core.ports.model import Sampling
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.tokens import packed_ids, unpacked_ids
from sandlot.core.trace import Message, Node, Reasoning, Text, ToolCall, ToolResult, Trace, text_message
from sandlot.core.types import Role
from sandlot.model.engine.logprobs import token_logprobs
from sandlot.model.policy.tokens import token_policies
from sandlot.model.render.open import open_renderer

LOOK = ToolSpec(name="look_up", description="", parameters={"type": "object", "properties": {"word": {"type": "string"}}})
DECODER = tiny_decoder()
OTHER_DECODER = tiny_decoder(seed=1)
THOUGHT = Message(
    role=Role.ASSISTANT,
    parts=(Reasoning("I know a tool."), Text("I look."), ToolCall("", "look_up", {"word": "sandlot", "times": 2})),
)
AGAIN = Message(role=Role.ASSISTANT, parts=(ToolCall("", "look_up", {"word": "lot"}),))
FIRST, SECOND, THIRD, FOURTH = 2, 4, 6, 8
"""The sampled nodes of the trace."""


@pytest.fixture(scope="module")
def renderer(tmp_path_factory):
    return open_renderer(FAMILIES["qwen3"](tmp_path_factory.mktemp("qwen3")))


def letter_by_letter(renderer, text):
    """Ids no tokenizer would choose, which a model may well sample."""
    return [token for letter in text for token in renderer.tokenizer.encode_text(letter)]


async def made_trace(renderer, rollout=0):
    """Four turns: a thought with a call, a call spelled letter by letter, an answer cut off, a last word."""
    call, call_end = renderer.tokenizer.control["<tool_call>"], renderer.tokenizer.control["</tool_call>"]
    end = renderer.tokenizer.control["<|im_end|>"]
    spelled = letter_by_letter(renderer, '\n{"name": "look_up", "arguments": {"word": "lot"}}\n')
    turns = [
        renderer.turn(THOUGHT),
        [call, *spelled, call_end, end],
        renderer.turn(text_message(Role.ASSISTANT, f"It is a field {rollout}"))[:-1],
        renderer.turn(text_message(Role.ASSISTANT, "of sand.")),
    ]
    answers = [
        Message(role=Role.TOOL, parts=(ToolResult("turn0_0", "An empty <|im_end|> lot."),)),
        Message(role=Role.TOOL, parts=(ToolResult("turn1_0", "A plot."),)),
        text_message(Role.USER, "Go on."),
    ]
    trace = Trace(run="r", task="t", rollout=rollout, seed=1)
    trace.append(Node(message=text_message(Role.SYSTEM, "Be brief.")))
    leaf = trace.append(Node(message=text_message(Role.USER, f"What is a sandlot? {rollout}"), parent=0))
    async with token_policies(ForcedModel(turns, DECODER), renderer, Sampling()).policy(Task("t", prompt="?"), 1) as policy:
        for answer in [*answers, None]:
            leaf = trace.append(await policy.turn(trace, leaf, (LOOK,)))
            if answer is not None:
                leaf = trace.append(Node(message=answer, parent=leaf))
    return trace


@pytest.fixture(scope="module")
def honest(renderer):
    return [anyio.run(made_trace, renderer, rollout) for rollout in range(2)]


@pytest.fixture
def traces(honest):
    return copy.deepcopy(honest)


def audit(traces, speaker, **changes):
    settings = {
        "renderer": speaker,
        "decode": speaker.tokenizer.decode,
        "logprobs": lambda ids: token_logprobs(DECODER, ids),
        "gate": SAME_CODE,
    }
    return audit_tokens(traces, **(settings | changes))


def test_honest_traces_are_sound_and_exact(traces, renderer):
    found = audit(traces, renderer)
    assert found.faults == ()
    assert found.verdict == "sound"
    assert (found.traces, found.turns, found.rows, found.without_ids) == (2, 8, 2, ())
    assert found.positions["all"].tokens == found.tokens
    assert found.positions["all"].largest < 1e-5


# -- the faults --------------------------------------------------------------------------------------------------------


def changed(trace, node, **fields):
    trace.nodes[node] = msgspec.structs.replace(trace.nodes[node], **fields)


def columns(trace, node, ids, logprobs=None):
    """Put other ids in a turn and cut every other column to fit, so that no length tells."""
    old = trace.nodes[node].tokens
    values = old.logprobs_array().tolist() if logprobs is None else logprobs
    values = (values + [-1.0] * len(ids))[: len(ids)]
    tokens = msgspec.structs.replace(
        old,
        ids=packed_ids(ids),
        logprobs=np.asarray(values, "<f4").tobytes(),
        mask=b"\x01" * len(ids),
        versions=((len(ids), 0),),
    )
    changed(trace, node, tokens=tokens)
    recount(trace)


def recount(trace):
    """Let the endpoint's counts agree with whatever the trace holds now."""
    for index, node in enumerate(trace.nodes):
        if node.sampled and node.tokens is not None:
            given, at = len(node.context) // 4, node.parent
            while at is not None:
                above = trace.nodes[at]
                if above.sampled and above.tokens is not None:
                    given += len(above.context) // 4 + len(above.tokens)
                at = above.parent
            usage = msgspec.structs.replace(node.usage, prompt_tokens=given, completion_tokens=len(node.tokens))
            trace.nodes[index] = msgspec.structs.replace(node, usage=usage)


def ids_of(trace, node):
    return unpacked_ids(trace.nodes[node].tokens.ids)


def re_merged(trace, renderer):
    pieces = renderer.tokenizer.pieces(ids_of(trace, SECOND))
    columns(trace, SECOND, renderer.tokenizer.encode(pieces))


def dropped_separator(trace, renderer):
    changed(trace, SECOND, context=trace.nodes[SECOND].context[4:])
    recount(trace)


def stripped_thinking(trace, renderer):
    ids = ids_of(trace, FIRST)
    columns(trace, FIRST, ids[ids.index(renderer.tokenizer.control["</think>"]) + 1 :])


def empty_thought_put_in(trace, renderer):
    columns(trace, SECOND, renderer.tokenizer.encode_template("<think>\n\n</think>\n\n") + ids_of(trace, SECOND))


def system_prompt_again(trace, renderer):
    again = renderer.tokenizer.encode_template("<|im_start|>system\nBe brief.<|im_end|>\n")
    context = unpacked_ids(trace.nodes[THIRD].context)
    changed(trace, THIRD, context=packed_ids(context[:1] + again + context[1:]))
    recount(trace)


def trimmed_stop(trace, renderer):
    columns(trace, FOURTH, ids_of(trace, FOURTH)[:-1])


def end_appended_with_a_made_up_probability(trace, renderer):
    values = [*trace.nodes[THIRD].tokens.logprobs_array().tolist(), 0.0]
    columns(trace, THIRD, [*ids_of(trace, THIRD), renderer.tokenizer.control["<|im_end|>"]], values)
    changed(trace, FOURTH, context=trace.nodes[FOURTH].context[4:])
    changed(trace, THIRD, stop="stop")
    recount(trace)


def call_written_again(trace, renderer):
    ids = ids_of(trace, FIRST)
    begin = ids.index(renderer.tokenizer.control["<tool_call>"])
    again = '\n{"name":"look_up","arguments":{"word":"sandlot","times":2}}\n'
    columns(trace, FIRST, [*ids[: begin + 1], *renderer.tokenizer.encode_text(again), *ids[-2:]])


def keys_in_another_order(trace, renderer):
    message = trace.nodes[FIRST].message
    call = message.calls[0]
    turned = ToolCall(call.id, call.name, dict(reversed(call.arguments.items())))
    changed(trace, FIRST, message=msgspec.structs.replace(message, parts=(*message.parts[:-1], turned)))


def special_tokens_lost(trace, renderer):
    control = set(renderer.tokenizer.control.values())
    columns(trace, FIRST, [token for token in ids_of(trace, FIRST) if token not in control])


def history_compacted(trace, renderer):
    changed(trace, THIRD, parent=trace.append(Node(message=text_message(Role.USER, "In short: look for lots."))))


def history_compacted_and_recounted(trace, renderer):
    history_compacted(trace, renderer)
    recount(trace)


def resumed_without_probabilities(trace, renderer):
    values = trace.nodes[SECOND].tokens.logprobs_array().copy()
    values[:5] = np.nan
    changed(trace, SECOND, tokens=msgspec.structs.replace(trace.nodes[SECOND].tokens, logprobs=values.tobytes()))


def resumed_with_made_up_probabilities(trace, renderer):
    values = trace.nodes[SECOND].tokens.logprobs_array().copy()
    values[:5] = 0.0
    changed(trace, SECOND, tokens=msgspec.structs.replace(trace.nodes[SECOND].tokens, logprobs=values.tobytes()))


def given_tokens_masked_in(trace, renderer):
    changed(trace, SECOND - 1, tokens=msgspec.structs.replace(trace.nodes[SECOND].tokens, logprobs=b""))


def turn_masked_out(trace, renderer):
    tokens = trace.nodes[SECOND].tokens
    changed(trace, SECOND, tokens=msgspec.structs.replace(tokens, mask=bytes(len(tokens))))


def mask_longer_than_ids(trace, renderer):
    tokens = trace.nodes[SECOND].tokens
    changed(trace, SECOND, tokens=msgspec.structs.replace(tokens, mask=tokens.mask + b"\x01"))


def versions_do_not_add_up(trace, renderer):
    changed(trace, SECOND, tokens=msgspec.structs.replace(trace.nodes[SECOND].tokens, versions=((3, 0),)))


def versions_go_back(trace, renderer):
    tokens = trace.nodes[FIRST].tokens
    changed(trace, FIRST, tokens=msgspec.structs.replace(tokens, versions=((len(tokens), 7),)))


def other_weights_than_recorded(trace, renderer):
    num_given = trace.nodes[SECOND].usage.prompt_tokens
    path = [*unpacked_ids(trace.nodes[FIRST].context), *ids_of(trace, FIRST)]
    path += [*unpacked_ids(trace.nodes[SECOND].context), *ids_of(trace, SECOND)]
    values = np.asarray(token_logprobs(OTHER_DECODER, path)[num_given:], "<f4")
    changed(trace, SECOND, tokens=msgspec.structs.replace(trace.nodes[SECOND].tokens, logprobs=values.tobytes()))


def probabilities_swapped(trace, renderer):
    values = trace.nodes[SECOND].tokens.logprobs_array().copy()
    values[[3, 4]] = values[[4, 3]]
    changed(trace, SECOND, tokens=msgspec.structs.replace(trace.nodes[SECOND].tokens, logprobs=values.tobytes()))


def probabilities_moved_by_one(trace, renderer):
    values = np.roll(trace.nodes[FIRST].tokens.logprobs_array(), 1)
    changed(trace, FIRST, tokens=msgspec.structs.replace(trace.nodes[FIRST].tokens, logprobs=values.tobytes()))


def probabilities_cut(trace, renderer):
    tokens = trace.nodes[FIRST].tokens
    changed(trace, FIRST, tokens=msgspec.structs.replace(tokens, logprobs=tokens.logprobs[:-4]))


def node_doubled(trace, renderer):
    trace.append(trace.nodes[FOURTH])


def branch_nobody_recorded(trace, renderer):
    trace.append(msgspec.structs.replace(trace.nodes[THIRD], parent=1))
    recount(trace)


def history_in_the_context(trace, renderer):
    above = unpacked_ids(trace.nodes[FIRST].context) + ids_of(trace, FIRST)
    changed(trace, SECOND, context=packed_ids(above) + trace.nodes[SECOND].context)
    recount(trace)


def end_twice(trace, renderer):
    columns(trace, FOURTH, [*ids_of(trace, FOURTH), renderer.tokenizer.control["<|im_end|>"]])


def content_became_a_control_token(trace, renderer):
    text = renderer.tokenizer.decode(unpacked_ids(trace.nodes[SECOND].context))
    changed(trace, SECOND, context=packed_ids(renderer.tokenizer.encode_template(text)))
    recount(trace)


def bytes_torn(trace, renderer):
    tokens = trace.nodes[FIRST].tokens
    changed(trace, FIRST, tokens=msgspec.structs.replace(tokens, ids=tokens.ids[:-1]))


def no_ids(trace, renderer):
    changed(trace, SECOND, tokens=None)


def other_prompt_than_counted(trace, renderer):
    changed(trace, SECOND, usage=msgspec.structs.replace(trace.nodes[SECOND].usage, prompt_tokens=1))


def other_completion_than_counted(trace, renderer):
    changed(trace, FIRST, usage=msgspec.structs.replace(trace.nodes[FIRST].usage, completion_tokens=3))


STRUCTURE, SPELLING, NUMBERS = FaultClass.STRUCTURE, FaultClass.SPELLING, FaultClass.NUMBERS
FAULTS = {
    re_merged: {FaultCode.TURN},
    dropped_separator: {FaultCode.CONTEXT, FaultCode.BOUNDARY},
    stripped_thinking: {FaultCode.MESSAGE, FaultCode.BOUNDARY},
    empty_thought_put_in: {FaultCode.BOUNDARY},
    system_prompt_again: {FaultCode.CONTEXT, FaultCode.BOUNDARY},
    trimmed_stop: {FaultCode.STOP},
    end_appended_with_a_made_up_probability: {FaultCode.TURN},
    call_written_again: {FaultCode.TURN},
    keys_in_another_order: {FaultCode.MESSAGE},
    special_tokens_lost: {FaultCode.STOP, FaultCode.MESSAGE, FaultCode.CONTEXT, FaultCode.BOUNDARY},
    history_compacted: {FaultCode.PROMPT_LENGTH, FaultCode.SILENT_FORK, FaultCode.BOUNDARY},
    history_compacted_and_recounted: {FaultCode.SILENT_FORK, FaultCode.BOUNDARY},
    resumed_without_probabilities: {FaultCode.LOGPROB_VALUE},
    resumed_with_made_up_probabilities: {FaultCode.TURN},
    given_tokens_masked_in: {FaultCode.MASK_VALUE},
    turn_masked_out: {FaultCode.MASK_VALUE},
    mask_longer_than_ids: {FaultCode.MASK_LENGTH},
    versions_do_not_add_up: {FaultCode.VERSIONS_SUM},
    versions_go_back: {FaultCode.VERSION_ORDER},
    other_weights_than_recorded: {FaultCode.TURN},
    probabilities_swapped: {FaultCode.TURN},
    probabilities_moved_by_one: {FaultCode.TURN},
    probabilities_cut: {FaultCode.LOGPROBS_LENGTH},
    node_doubled: {FaultCode.DOUBLED, FaultCode.SILENT_FORK},
    branch_nobody_recorded: {FaultCode.SILENT_FORK, FaultCode.BOUNDARY},
    history_in_the_context: {FaultCode.HISTORY_AGAIN, FaultCode.CONTEXT, FaultCode.BOUNDARY},
    end_twice: {FaultCode.END_INSIDE, FaultCode.TURN},
    content_became_a_control_token: {FaultCode.CONTEXT, FaultCode.BOUNDARY},
    bytes_torn: {FaultCode.TORN},
    no_ids: {FaultCode.NO_IDS, FaultCode.PROMPT_LENGTH, FaultCode.CONTEXT, FaultCode.BOUNDARY},
    other_prompt_than_counted: {FaultCode.PROMPT_LENGTH},
    other_completion_than_counted: {FaultCode.COMPLETION_LENGTH},
}


@pytest.mark.parametrize("inject", FAULTS, ids=lambda inject: inject.__name__)
def test_an_injected_fault_is_caught_by_code_and_kind_and_nothing_else_is_blamed(inject, traces, renderer):
    broken = copy.deepcopy(traces[1])
    inject(broken, renderer)
    found = audit([traces[0], broken], renderer)
    codes = {fault.code for fault in found.faults}
    assert codes == FAULTS[inject], found.faults
    assert {fault.rollout for fault in found.faults} == {1}
    assert found.verdict not in {"sound", "numerics"} or inject is no_ids


def test_every_code_is_met_by_a_fault_above_and_numerics_below():
    assert set().union(*FAULTS.values()) == set(FaultCode) - {FaultCode.NUMERICS}


NEEDS_NUMBERS = [re_merged, dropped_separator, stripped_thinking, system_prompt_again, call_written_again, special_tokens_lost]


@pytest.mark.parametrize("inject", NEEDS_NUMBERS, ids=lambda inject: inject.__name__)
def test_the_numbers_alone_tell_a_broken_boundary_or_turn(inject, traces, renderer):
    broken = copy.deepcopy(traces[1])
    inject(broken, renderer)
    found = audit([traces[0], broken], renderer, renderer=None)
    (fault,) = found.faults
    assert fault.found_by is NUMBERS
    assert fault.code in FAULTS[inject]
    assert found.verdict in {"broken boundary", "broken turn"}


def test_a_trace_without_ids_is_named_and_the_others_are_still_looked_at(traces, renderer):
    no_ids(traces[1], renderer)
    found = audit(traces, renderer)
    assert found.without_ids == ("t/1",)
    assert found.counts["no_ids"] == 1


# -- numerics ----------------------------------------------------------------------------------------------------------


def test_rounding_everywhere_is_numerics_and_passes_the_wider_gate(traces, renderer):
    noise = np.random.default_rng(0)

    def rounded(ids):
        return np.asarray(token_logprobs(DECODER, ids)) + noise.normal(0, 0.01, len(ids))

    exact = audit(traces, renderer, logprobs=rounded)
    assert exact.verdict == "numerics"
    assert [fault.code for fault in exact.faults] == [FaultCode.NUMERICS]
    assert audit(traces, renderer, logprobs=rounded, gate=OTHER_KERNELS).verdict == "sound"


def test_another_temperature_is_told_from_a_broken_boundary(traces, renderer):
    found = audit(traces, renderer, logprobs=lambda ids: token_logprobs(DECODER, ids, temperature=0.5))
    assert found.verdict == "numerics"


def test_a_broken_boundary_shows_through_the_rounding_of_other_kernels(traces, renderer):
    noise = np.random.default_rng(0)
    broken = copy.deepcopy(traces[1])
    dropped_separator(broken, renderer)

    def rounded(ids):
        return np.asarray(token_logprobs(DECODER, ids)) + noise.normal(0, 0.01, len(ids))

    found = audit([traces[0], broken], renderer, renderer=None, logprobs=rounded, gate=OTHER_KERNELS)
    assert [(fault.rollout, fault.node, fault.code) for fault in found.faults] == [(1, SECOND, FaultCode.BOUNDARY)]


def test_a_token_outside_the_recomputed_distribution_is_counted(traces, renderer):
    found = audit(traces, renderer, logprobs=lambda ids: token_logprobs(DECODER, ids, top_k=1))
    assert found.positions["all"].outside > 0
    assert found.verdict != "sound"
