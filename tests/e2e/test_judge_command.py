"""`sandlot judge` against a real endpoint: a good judge passes, a bad one does not, and both are told in exit codes."""

import json
import re

import anyio
import pytest

from drive.command_line import refused
from fakes.endpoint import FakeEndpoint, says
from sandlot.calibrate.judges.judge import MORE_CANARIES
from sandlot.grade.judge import CANARIES

pytestmark = pytest.mark.timeout(300)
KNOWN = dict([*CANARIES, *MORE_CANARIES])


def good(request):
    """Answers from what stands in the data."""
    prompt = request.body["messages"][-1]["content"]
    if "Criterion 1: " in prompt:
        asked = [part.split("\n")[0] for part in re.split(r"Criterion \d+: ", prompt)[1:]]
        verdicts = [KNOWN.get(each, "yes" if "truly" in prompt else "no") for each in asked]
        return says(json.dumps({"verdicts": [{"reason": "seen", "verdict": verdict} for verdict in verdicts]}))
    criterion = prompt.split("Criterion: ")[1].split("\n")[0]
    verdict = KNOWN.get(criterion, "yes" if "truly" in prompt else "no")
    return says(json.dumps({"reason": "seen", "verdict": verdict}))


def flatterer(_request):
    return says('{"reason": "so good", "verdict": "yes"}')


@pytest.fixture
def labels(tmp_path):
    path = tmp_path / "labels.jsonl"
    lines = [
        {"question": "It is so.", "view": f"{'truly' if n % 2 else 'hardly'} {n}", "labels": ["yes" if n % 2 else "no"] * 2}
        for n in range(30)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(("judge", "code", "verdict"), [(good, 0, "pass"), (flatterer, 1, "fail")])
async def test_a_judge_is_measured_over_its_endpoint(sandlot, tmp_path, labels, judge, code, verdict):
    async with FakeEndpoint(then=judge) as endpoint:
        words = ("judge", labels, "--judge", f"openai:fake@{endpoint.url}", "--repeats", "2", "--json")
        done = await anyio.to_thread.run_sync(lambda: sandlot(*words, cwd=tmp_path))
    assert (done.code, done.json["verdict"]) == (code, verdict), done
    assert done.json["calls"] == len(endpoint.requests) == 30 * (2 + 1 + 1 + 2 + 2)
    assert {gate["name"] for gate in done.json["gates"]} >= {
        "canaries",
        "padding",
        "several at once",
        "order of criteria",
        "agrees with people",
    }


async def test_the_result_is_on_stdout_and_what_it_is_asked_on_stderr(sandlot, tmp_path, labels):
    async with FakeEndpoint(then=good) as endpoint:
        words = ("judge", labels, "--judge", f"openai:fake@{endpoint.url}", "--repeats", "2", "--items", "1", "--batch", "1")
        done = await anyio.to_thread.run_sync(lambda: sandlot(*words, cwd=tmp_path))
    assert done.out.splitlines()[0] == f"judge openai:fake@{endpoint.url}: passes"
    assert "about 30 items, 30 of them labelled by people" in done.err
    assert "asking" not in done.out


def test_a_rubric_without_examples_gives_nothing_to_ask(sandlot, tmp_path):
    rubric = tmp_path / "rubric.json"
    rubric.write_text('{"checks": [{"kind": "judge", "id": "kind", "prompt": "The answer is kind."}]}')
    said = refused(sandlot("judge", rubric, "--judge", "rookie", cwd=tmp_path))
    assert "(kind) have no examples" in said
    assert "cannot read labels" in refused(sandlot("judge", "no-such-thing.jsonl", "--judge", "rookie", cwd=tmp_path))
