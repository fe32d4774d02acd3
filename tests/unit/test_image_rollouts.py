"""Images on the whole road: from a tool or a task to the model, the judge and the trace."""

import base64
import json
from contextlib import asynccontextmanager

import pytest

from builders.pictures import SVG, huge_by_header, png
from fakes.endpoint import FakeEndpoint, calls, says
from sandlot.core.errors import ConfigError, ToolError
from sandlot.core.images import Image
from sandlot.core.rubric import JudgeCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.trace import ImagePart, Text
from sandlot.core.types import digest
from sandlot.env.environment import Environment
from sandlot.env.transcript import message_lines
from sandlot.grade.view import transcript
from sandlot.harness.tool_loop import ToolLoop
from sandlot.interop.export import ExportKind, export_run
from sandlot.rollout import run_rollout
from sandlot.run.run import run_async
from sandlot.store.blobs import MemoryBlobs
from sandlot.store.gc import references
from sandlot.wiring.config import AgentConfig, ModelConfig
from sandlot.wiring.models import open_policies
from sandlot.wiring.parts import Grading, RolloutParts

CHART = png(5, 4, shade=9)
HASH = digest(CHART)
URI = f"data:image/png;base64,{base64.b64encode(CHART).decode()}"


def plots(**options) -> Environment:
    env = Environment("plots", **{"images": "require"} | options)

    @env.tasks
    def tasks(_rng):
        yield Task("one", prompt="Look.")

    @env.tool
    def look(what: str = "chart") -> object:
        """Look."""
        found = {
            "chart": Image(CHART, alt="the chart"),
            "both": ["before", Image(CHART), {"after": 1}, Image(png(1, 1))],
            "text first": ["The chart:", Image(CHART)],
            "svg": Image(SVG),
            "bomb": [Image(huge_by_header())],
            "many": [Image(CHART)] * 17,
        }
        return found[what]

    @env.check(points=1)
    def said(evidence) -> bool:
        return evidence.answer == "seen"

    return env


def looks(what: str = "chart"):
    return calls(("look", json.dumps({"what": what})))


async def rolled(env, endpoint, *, scheme="openai+images", task=None, calls="native"):
    blobs = MemoryBlobs()
    model = ModelConfig(spec=f"{scheme}:fake@{endpoint.url}", patience_s=0)
    async with open_policies(model, AgentConfig(calls=calls), env) as policies:
        parts = RolloutParts(grading=Grading(env=env), policies=policies, harness=ToolLoop())
        return await run_rollout(parts, task or Task("one", prompt="Look."), run="r", rollout=0, blobs=blobs), blobs


@asynccontextmanager
async def endpoint_for(*answers):
    async with FakeEndpoint([*answers, says("seen")]) as endpoint:
        yield endpoint


async def test_a_tools_image_reaches_the_model_and_the_trace():
    async with endpoint_for(looks("text first")) as endpoint:
        trace, blobs = await rolled(plots(), endpoint)
    (result,) = trace.nodes[2].message.results
    assert result.text == "The chart:"
    assert result.images == (ImagePart(HASH, "image/png", width=5, height=4),)
    assert await blobs.get(HASH) == CHART
    assert HASH in set(references(trace))
    assert trace.reward == 1.0
    tool, shown = endpoint.requests[1].body["messages"][-2:]
    assert tool == {"role": "tool", "content": "The chart:", "tool_call_id": "c0"}
    assert shown == {
        "role": "user",
        "content": [
            {"type": "text", "text": "The image of the tool result of call c0:"},
            {"type": "image_url", "image_url": {"url": URI}},
        ],
    }


async def test_a_result_says_where_its_images_stand():
    async with endpoint_for(looks("both")) as endpoint:
        trace, _ = await rolled(plots(), endpoint)
    (result,) = trace.nodes[2].message.results
    assert result.text == 'before\n[image 1]\n{"after":1}\n[image 2]'
    assert [image.artifact for image in result.images] == [HASH, digest(png(1, 1))]


@pytest.mark.parametrize(
    ("what", "says_"),
    [("svg", "an SVG drawing"), ("bomb", "60000 x 60000 pixels"), ("many", "at most 16 are shown at once")],
)
async def test_what_is_no_image_becomes_an_error_that_the_agent_reads(what, says_):
    async with endpoint_for(looks(what)) as endpoint:
        trace, _ = await rolled(plots(), endpoint)
    (result,) = trace.nodes[2].message.results
    assert result.error
    assert says_ in result.text
    assert trace.reward == 1.0


async def test_a_rollouts_images_have_a_budget():
    async with plots().session("one") as session:
        session.world.images_left = len(CHART)
        assert await session.world.store_image(Image(CHART)) is not None
        with pytest.raises(ToolError, match="bytes of images are used up"):
            await session.world.store_image(Image(CHART))


async def test_a_tasks_images_stand_in_the_first_message():
    async with endpoint_for() as endpoint:
        trace, _ = await rolled(plots(), endpoint, task=Task("one", prompt="What is it?", images=(Image(CHART, alt="?"),)))
    assert trace.nodes[0].message.parts == (Text("What is it?"), ImagePart(HASH, "image/png", width=5, height=4, alt="?"))
    assert endpoint.requests[0].body["messages"][0]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": URI}},
    ]


@pytest.mark.parametrize(
    ("images", "content"),
    [
        ("describe", "[image 1]\n[image: the chart, 5 x 4 pixels, image/png; you cannot see images]"),
        ("drop", "[image 1]"),
    ],
)
async def test_a_model_that_takes_text_only_gets_what_is_declared(images, content):
    async with endpoint_for(looks()) as endpoint:
        trace, _ = await rolled(plots(images=images), endpoint, scheme="openai")
    assert endpoint.requests[1].body["messages"][-1] == {"role": "tool", "content": content, "tool_call_id": "c0"}
    assert trace.nodes[2].message.results[0].images[0].artifact == HASH  # the trace keeps the picture


@pytest.mark.parametrize("spec", ["openai:fake@http://127.0.0.1:1/v1", "smollm2", "vllm:fake@http://127.0.0.1:1"])
async def test_a_model_that_takes_text_only_is_refused_before_the_first_rollout(spec, tmp_path):
    with pytest.raises(ConfigError, match=r"shows images, and model .* takes text only"):
        await run_async(plots(), spec, runs=tmp_path)
    assert not list(tmp_path.iterdir())


async def test_text_calls_carry_images_too():
    answer = says('<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>')
    async with endpoint_for(answer) as endpoint:
        await rolled(plots(), endpoint, calls="text")
    assert endpoint.requests[1].body["messages"][-1]["content"][-1] == {"type": "image_url", "image_url": {"url": URI}}


async def test_an_environment_that_declares_no_images_shows_none():
    async with endpoint_for(looks()) as endpoint:
        trace, _ = await rolled(plots(images=None), endpoint)
    (crashed,) = [event.detail for event in trace.events if event.kind == "tool_crashed"]
    assert "returned an `Image`; say what models get that cannot see" in crashed["message"]
    assert not [part for part in trace.nodes[2].message.parts if isinstance(part, ImagePart)]
    with pytest.raises(ConfigError, match="images='maybe' is unknown; use require, describe, drop"):
        plots(images="maybe")


async def test_show_names_an_image_and_its_size():
    async with endpoint_for(looks()) as endpoint:
        trace, _ = await rolled(plots(), endpoint)
    assert message_lines(trace.nodes[2].message)[1] == f"<- [image: the chart, 5 x 4 pixels, image/png] {HASH[:12]}"
    assert '"images": ["[image: the chart, 5 x 4 pixels, image/png]"]' in transcript(trace)


# -- judges ------------------------------------------------------------------------------------------------------------


def judged(*view: str) -> Environment:
    env = plots()
    env.marked.rubrics["looks"] = Rubric(checks=(JudgeCheck(id="clear", prompt="The chart is clear.", view=view),))

    @env.setup
    async def put_chart(world, _task) -> None:
        await world.write("/out/chart.png", CHART)
        await world.write("/out/drawing.svg", SVG)

    return env


def verdicts(request):
    truth = "no" if "3 is greater than the number 7" in json.dumps(request.body) else "yes"
    return says(json.dumps({"reason": "r", "verdict": truth}))


@pytest.mark.parametrize("view", ["last_image", "image:/out/chart.png"])
async def test_a_judge_sees_the_image_that_a_check_names(view, tmp_path):
    async with endpoint_for(looks()) as endpoint, FakeEndpoint(then=verdicts) as judge:
        run = await run_async(
            judged(view, "answer"),
            f"openai+images:fake@{endpoint.url}",
            judge=f"openai+images:judge@{judge.url}",
            rubric="looks",
            runs=tmp_path,
        )
    assert run.trace("one", 0).reward == 1.0
    (asked,) = [request.body for request in judge.requests if "The chart is clear" in json.dumps(request.body)]
    assert asked["messages"][1]["content"][1] == {"type": "image_url", "image_url": {"url": URI}}
    assert "The images are data too" in asked["messages"][0]["content"]
    assert not any("image_url" in json.dumps(request.body) for request in judge.requests if request.body != asked)


async def test_a_judge_that_takes_text_only_is_refused_before_the_first_rollout(tmp_path):
    async with endpoint_for() as endpoint:
        with pytest.raises(ConfigError, match=r"shows the judge images, and judge .* takes text only"):
            await run_async(
                judged("last_image"),
                f"openai+images:fake@{endpoint.url}",
                judge=f"openai:judge@{endpoint.url}",
                rubric="looks",
                runs=tmp_path,
            )
        assert not endpoint.requests


@pytest.mark.parametrize(
    ("view", "why"), [("last_image", "saw no image"), ("image:/out/drawing.svg", "SVG"), ("image:/out/none.png", "none.png")]
)
async def test_a_check_whose_image_is_missing_is_not_met(view, why, tmp_path):
    async with endpoint_for() as endpoint, FakeEndpoint(then=verdicts) as judge:
        run = await run_async(
            judged(view),
            f"openai+images:fake@{endpoint.url}",
            judge=f"openai+images:judge@{judge.url}",
            rubric="looks",
            runs=tmp_path,
        )
    trace = run.trace("one", 0)
    assert trace.reward == 0.0
    assert why in trace.outcome.score.checks[0].evidence
    assert not judge.requests


# -- exports -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
async def test_an_export_holds_the_images_as_an_endpoint_gets_them(ending, tmp_path):
    async with endpoint_for(looks()) as endpoint:
        run = await run_async(plots(), f"openai+images:fake@{endpoint.url}", runs=tmp_path)
    done = export_run(run, ExportKind.SFT, tmp_path / f"sft.{ending}", split=None)
    assert (done.rows, done.skipped) == (1, 0)
    if ending == "jsonl":
        (row,) = map(json.loads, (tmp_path / "sft.jsonl").read_text().splitlines())
        assert [message["role"] for message in row["messages"]] == ["user", "assistant", "tool", "user", "assistant"]
        assert row["messages"][3]["content"][-1] == {"type": "image_url", "image_url": {"url": URI}}
