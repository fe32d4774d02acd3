import anyio
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.trace import Node, Trace, text_message
from sandlot.core.types import Role
from sandlot.model.policy.player import FLOOD_CHARS, MALFORMED
from sandlot.model.policy.random_calls import random_arguments
from sandlot.model.policy.scripted import NAMES, scripted_policies

TASK = Task("t", prompt="2+2?")
SCHEMA = {
    "type": "object",
    "properties": {
        "x": {"type": "integer", "minimum": 3, "maximum": 5},
        "mode": {"enum": ["a", "b"]},
        "deep": {"$ref": "#/$defs/Deep"},
        "maybe": {"anyOf": [{"type": "string", "minLength": 12}, {"type": "null"}]},
        "ratio": {"type": "number", "exclusiveMinimum": 0},
        "list": {"type": "array", "items": {"type": ["boolean", "null"]}, "minItems": 1},
    },
    "required": ["x", "deep"],
    "$defs": {"Deep": {"type": "object", "properties": {"y": {"const": 7}}, "required": ["y"]}},
}
TOOLS = [
    ToolSpec(name="add", description="", parameters=SCHEMA),
    ToolSpec(name="mul", description="", parameters={"type": "object"}),
]


async def golden(agent, task):
    await agent.say("golden")


async def turns(spec, num_turns=1, *, seed=0, tools=TOOLS) -> list[Node]:
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    trace.append(Node(message=text_message(Role.USER, TASK.prompt)))
    async with scripted_policies(spec, golden).policy(TASK, seed) as policy:
        for _ in range(num_turns):
            with anyio.fail_after(5):
                leaf = trace.append(await policy.turn(trace, len(trace.nodes) - 1, tools))
            trace.append(Node(message=text_message(Role.USER, "go on"), parent=leaf))
    return list(trace.turns())


@pytest.mark.parametrize(
    ("spec", "text", "stop"),
    [
        ("golden", "golden", "stop"),
        ("scripted:golden", "golden", "stop"),
        ("noop", "", "stop"),
        ("refuse", "I cannot help with that.", "refusal"),
        ("echo", "2+2?", "stop"),
        ("constant:a:b", "a:b", "stop"),
        ("mixed:1", "golden", "stop"),
    ],
)
async def test_a_player_says_its_line(spec, text, stop):
    (node,) = await turns(spec)
    assert (node.message.text, node.stop) == (text, stop)
    assert node.model == "scripted:" + spec.removeprefix("scripted:")
    assert node.parent == 0
    assert node.sampled


async def test_noop_says_nothing_at_all():
    assert (await turns("noop"))[0].message.parts == ()


async def test_mixed_is_golden_as_often_as_asked_and_otherwise_wrong():
    said_by_seed = [(await turns("mixed:0.3", seed=seed))[0].message.text for seed in range(300)]
    assert 60 <= said_by_seed.count("golden") <= 120
    assert set(said_by_seed) == {"golden", "", "2+2?"}
    assert said_by_seed[:10] == [(await turns("mixed:0.3", seed=seed))[0].message.text for seed in range(10)]


async def test_random_calls_fit_their_schemas_and_end():
    nodes = await turns("random", 10, seed=3)
    calls = [call for node in nodes for call in node.message.calls]
    assert calls
    assert nodes[-1].message.parts == ()
    for call in calls:
        jsonschema.validate(call.arguments, SCHEMA if call.name == "add" else {"type": "object"})
    assert [node.message for node in nodes] == [node.message for node in await turns("random", 10, seed=3)]


@given(st.randoms(use_true_random=False))
def test_random_arguments_fit(rng):
    jsonschema.validate(random_arguments(SCHEMA, rng), SCHEMA)


async def test_loop_calls_the_first_tool_for_ever():
    nodes = await turns("loop", 20)
    assert {node.message.calls[0].name for node in nodes} == {"add"}
    assert len({node.message.calls[0].id for node in nodes}) == 20


async def test_malformed_makes_every_bad_call_and_stops():
    nodes = await turns("malformed", len(MALFORMED) + 1)
    assert all(node.message.calls for node in nodes[:-1])
    assert nodes[-1].message.parts == ()


async def test_flood_says_far_too_much():
    assert len((await turns("flood"))[0].message.text) > FLOOD_CHARS // 2


async def test_crash_raises_as_a_model():
    with pytest.raises(ModelError) as caught:
        await turns("crash")
    assert caught.value.kind == "crash"


async def test_hang_never_answers():
    async with scripted_policies("hang").policy(TASK, 0) as policy:
        with anyio.move_on_after(0.02) as scope:
            await policy.turn(Trace(run="r", task="t", rollout=0, seed=0), 0, TOOLS)
    assert scope.cancelled_caught


@pytest.mark.parametrize("spec", ["loop", "random", "malformed"])
async def test_players_do_without_tools(spec):
    assert await turns(spec, 3, tools=())


@pytest.mark.parametrize("spec", ["golen", "", "noop:3", "golden:x", "hang:1"])
async def test_an_unknown_name_is_told_what_there_is(spec):
    with pytest.raises(ConfigError) as caught:
        scripted_policies(spec, golden)
    assert all(name in str(caught.value) for name in NAMES)


@pytest.mark.parametrize("share", ["", "2", "-0.1", "nan", "half"])
async def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        scripted_policies(f"mixed:{share}", golden)


@pytest.mark.parametrize("spec", ["golden", "mixed:0.5"])
async def test_golden_needs_a_solution(spec):
    with pytest.raises(ConfigError, match="solution"):
        scripted_policies(spec)
