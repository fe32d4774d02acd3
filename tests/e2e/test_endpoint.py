"""Whole runs against a real HTTP endpoint that misbehaves in every way: right classes, caps that hold, no secret anywhere."""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from drive.command_line import ENVIRONMENTS, NOTES, Outcome, environ
from fakes.endpoint import Answer, FakeEndpoint, Request, calls, completion, says, status
from sandlot import Run
from sandlot.core.trace import Failed, Scored
from sandlot.observe.events import TurnTaken
from sandlot.run.config import RunConfig, Selection
from sandlot.run.run import run_config
from sandlot.wiring.config import ModelConfig

CANARY = "sk-canary-5f1c9e7a"
ONE = Selection(tasks=("note-0",))


async def run_notes(endpoint: FakeEndpoint, place: Path, select: Selection = ONE, **model) -> Run:
    config = ModelConfig(spec=f"openai:m@{endpoint.url}", patience_s=model.pop("patience_s", 2.0), **model)
    return await run_config(RunConfig(env=str(NOTES), model=config, select=select, at_once=4), place=place)


def note_writer(request: Request) -> Answer:
    """An agent that does what the prompt says, turn by turn."""
    roles = [message["role"] for message in request.body["messages"]]
    if "tool" in roles:
        return says("done")
    prompt = next(message["content"] for message in request.body["messages"] if message["role"] == "user")
    return calls(("write_note", json.dumps({"text": prompt.split("`")[1]})))


async def test_an_agent_behind_an_endpoint_calls_tools_and_gets_full_marks(tmp_path):
    async with FakeEndpoint(then=note_writer) as endpoint:
        run = await run_notes(endpoint, tmp_path / "run", Selection())
    assert run.summary().pass_rate.value == 1.0
    assert {tool["function"]["name"] for tool in endpoint.requests[0].body["tools"]} == {"write_note", "look"}
    row = next(run.rows)
    assert (row.prompt_tokens, row.completion_tokens, row.turns) == (20, 10, 2)


@pytest.mark.parametrize(
    ("trouble", "kinds"),
    [
        ([status(429, {"Retry-After": "0"})], ["rate_limit"]),
        ([status(500), status(503)], ["server", "server"]),
        ([Answer(b'{"choices": [{"mess', cut=True)], ["malformed"]),
        ([Answer(drop=True)], ["connect"]),
    ],
)
async def test_passing_trouble_is_retried_and_recorded(tmp_path, trouble, kinds):
    async with FakeEndpoint(trouble, then=note_writer) as endpoint:
        run = await run_notes(endpoint, tmp_path / "run", patience_s=20.0)
    trace = run.trace("note-0")
    assert trace.reward == 1.0
    assert [event.detail["kind"] for event in trace.events if event.kind == "model_retry"] == kinds


async def test_a_run_over_two_servers_goes_on_when_one_of_them_fails(tmp_path):
    events = []
    async with FakeEndpoint(then=note_writer) as good, FakeEndpoint(then=failing_after(3)) as failing:
        spec = f"openai:m@{failing.url},{good.url}"
        config = RunConfig(env=str(NOTES), model=ModelConfig(spec=spec), select=Selection(group=4), at_once=8)
        run = await run_config(config, place=tmp_path / "run", sink=events.append)
    assert run.summary().pass_rate.value == 1.0
    traces = list(run)
    assert len({trace.key for trace in traces}) == len(traces) == 32
    turns = [node.replica.name for trace in traces for node in trace.nodes if node.sampled]
    assert turns.count(failing.url) == 3
    assert turns.count(good.url) == len(turns) - 3
    taken = [event for event in events if isinstance(event, TurnTaken)]
    assert sum(event.retries for event in taken) == len(failing.requests) - 3 > 0
    assert [event.replica.name for event in taken].count(failing.url) == 3


def failing_after(count: int):
    """Answers so many requests as it should, and then no more."""
    left = [count]

    def answer(request: Request) -> Answer:
        left[0] -= 1
        return note_writer(request) if left[0] >= 0 else status(503)

    return answer


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (status(401), "auth"),
        (status(404), "not_found"),
        (status(400), "bad_request"),
        (status(500), "server"),
        (Answer(b"<html>not json"), "malformed"),
        (Answer(b'{"choices": []}'), "malformed"),
        (Answer(b"\xff\xfe\x00"), "malformed"),
        (Answer(b""), "malformed"),
    ],
)
async def test_lasting_trouble_is_the_models_failure_and_has_no_reward(tmp_path, answer, kind):
    async with FakeEndpoint(then=answer) as endpoint:
        run = await run_notes(endpoint, tmp_path / "run", patience_s=0.2)
    trace = run.trace("note-0")
    assert isinstance(trace.outcome, Failed)
    assert (trace.outcome.side, trace.outcome.kind, trace.end, trace.reward) == ("model", kind, "cut", None)


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (status(400, code="context_length_exceeded", message="maximum context length is 10 tokens"), "token_limit"),
        (completion({"content": "I can"}, "length"), "token_limit"),
        (completion({"content": None, "refusal": "I will not."}), "refused"),
        (completion({"content": "no"}, "content_filter"), "refused"),
        (completion({"content": None}), "done"),
    ],
)
async def test_what_the_agent_did_itself_is_an_ordinary_end_and_graded(tmp_path, answer, end):
    async with FakeEndpoint(then=answer) as endpoint:
        run = await run_notes(endpoint, tmp_path / "run")
    trace = run.trace("note-0")
    assert isinstance(trace.outcome, Scored)
    assert (trace.end, trace.reward) == (end, 0.0)


async def test_an_endpoint_that_dies_mid_run_is_the_models_failure(tmp_path):
    async with FakeEndpoint([calls(("look", '{"path": "/"}'))], then=Answer(drop=True)) as endpoint:
        run = await run_notes(endpoint, tmp_path / "run", patience_s=0.2)
    outcome = run.trace("note-0").outcome
    assert isinstance(outcome, Failed)
    assert (outcome.side, outcome.kind) == ("model", "connect")


@pytest.mark.system
async def test_an_endpoint_that_never_answers_is_the_models_failure(tmp_path):
    async with FakeEndpoint(then=Answer(hang=True)) as endpoint:
        run = await run_notes(endpoint, tmp_path / "run")
    trace = run.trace("note-0")
    assert (trace.outcome.side, trace.outcome.kind, trace.reward) == ("model", "timeout", None)


@pytest.mark.system
async def test_an_endpoint_that_hangs_in_a_later_turn_is_the_models_failure_too(tmp_path):
    def hangs_in_its_second_turn(request) -> Answer:
        return Answer(hang=True) if request.body["messages"][-1]["role"] == "tool" else calls(("look", '{"path": "/"}'))

    async with FakeEndpoint(then=hangs_in_its_second_turn, latency_s=0.5) as endpoint:
        run = await run_notes(endpoint, tmp_path / "run")
    trace = run.trace("note-0")
    assert (trace.outcome.side, trace.outcome.kind, trace.end, trace.reward) == ("model", "timeout", "cut", None)
    assert trace.num_turns == 1


# -- the command -------------------------------------------------------------------------------------------------------


async def command(*words: object, cwd: Path) -> Outcome:
    """The command beside the endpoint that this process serves."""
    line = [sys.executable, "-m", "sandlot", *map(str, words)]
    done = await anyio.run_process(line, cwd=cwd, check=False, stdin=subprocess.DEVNULL, env=environ(SANDLOT_API_KEY=CANARY))
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def told_secret(folder: Path, *outcomes: Outcome) -> list[str]:
    """Where the key appears."""
    files = [path.name for path in folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    return files + [outcome.err for outcome in outcomes if CANARY in outcome.out + outcome.err]


@pytest.mark.system
async def test_a_cap_stops_the_run_and_a_higher_one_continues_it(tmp_path):
    async with FakeEndpoint(then=note_writer) as endpoint:
        words = ("run", NOTES, "--model", f"openai:m@{endpoint.url}", "--at-once", 1, "--json", "--price", "1/1")
        first = await command(*words, "--max-total-tokens", 100, cwd=tmp_path)
        assert (first.code, first.json["verdict"]) == (3, "incomplete"), first
        assert 0 < first.json["scored"] < 8
        same = await command(*words, "--max-total-tokens", 100, cwd=tmp_path)
        assert same.code == 3
        assert same.json["scored"] == first.json["scored"], "what was spent before counts"
        poor = await command(*words, "--max-usd", 0.00005, cwd=tmp_path)
        assert (poor.code, poor.json["scored"]) == (3, first.json["scored"])
        rich = await command(*words, "--max-total-tokens", 10_000, cwd=tmp_path)
    assert (rich.code, rich.json["verdict"], rich.json["scored"]) == (0, "complete", 8)
    assert rich.json["run"] == first.json["run"]
    assert Run(tmp_path / rich.json["run"]).summary().failed == dict.fromkeys(rich.json["failed"], 0)
    assert told_secret(tmp_path, first, same, poor, rich) == []
    assert endpoint.requests[0].headers["Authorization"] == f"Bearer {CANARY}"


@pytest.mark.timeout(300)
async def test_a_key_that_the_endpoint_throws_back_is_written_nowhere(tmp_path):
    leaky = completion({"content": f"your key is {CANARY}", "tool_calls": None})
    refusing = status(401, message=f"Incorrect API key provided: {CANARY}")
    async with FakeEndpoint([leaky], then=refusing) as endpoint:
        words = ("run", NOTES, "--model", f"openai:m@{endpoint.url}", "--at-once", 1)
        ran = await command(*words, cwd=tmp_path)
        shown = await command("show", next((tmp_path / "runs").glob("notes*")), "--traces", cwd=tmp_path)
    assert ran.code == 1
    assert told_secret(tmp_path, ran, shown) == []


# -- judges ------------------------------------------------------------------------------------------------------------


def honest(request: Request) -> Answer:
    asked = request.body["messages"][-1]["content"]
    wrong = "The number 3 is greater than the number 7." in asked
    best = json.loads(asked.split("worst to best: ")[1].splitlines()[0].join("[]"))[-1]
    return says(json.dumps({"reason": "because", "verdict": "no" if wrong else best}))


def lying(request: Request) -> Answer:
    return says(json.dumps({"reason": "all is well", "verdict": "yes"}))


def rambling(request: Request) -> Answer:
    return says("Well, I would say yes, mostly. {")


@pytest.mark.parametrize(("judge", "kind"), [(honest, None), (lying, "canary"), (rambling, "unparsable")])
async def test_a_judge_is_believed_only_when_it_can_be(tmp_path, judge, kind):
    async with FakeEndpoint(then=judge) as endpoint:
        config = RunConfig(
            env=str(ENVIRONMENTS / "ledger"),
            model=ModelConfig(spec="scripted:golden"),
            select=Selection(rollouts=2),
            judge=ModelConfig(spec=f"openai:judge@{endpoint.url}", patience_s=1.0),
            rubric="judged",
        )
        run = await run_config(config, runs=tmp_path)
    outcomes = [trace.outcome for trace in run]
    assert len(outcomes) == 2
    if kind is None:
        assert all(trace.reward > 0.9 for trace in run)  # `yes` to what should not be there costs a little
    else:
        assert {(outcome.side, outcome.kind) for outcome in outcomes} == {("grader", kind)}
        assert {trace.reward for trace in run} == {None}
    assert endpoint.requests
