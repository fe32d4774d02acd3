"""`--user` and `sandlot simulator` as a person uses them: who plays the user is named, kept, shown, replayed and measured."""

import json

import anyio
import pytest

from drive.command_line import ENVIRONMENTS, refused
from fakes.endpoint import FakeEndpoint, says
from sandlot.model.policy.faithful_user import WAITING

pytestmark = pytest.mark.timeout(300)
RETURNS = ENVIRONMENTS / "returns"


@pytest.fixture(scope="module")
def talked(sandlot, tmp_path_factory):
    """A folder with a finished run in which somebody played the customers."""
    folder = tmp_path_factory.mktemp("talked")
    words = ("run", RETURNS, "--model", "scripted:golden", "--user", "scripted:persona", "-n", 4, "--run", "runs/made", "--json")
    done = sandlot(*words, cwd=folder)
    assert done.code == 0, done
    return folder


def test_the_user_is_part_of_the_manifest_and_of_the_setting(sandlot, talked):
    manifest = json.loads((talked / "runs/made/manifest.json").read_text())
    assert manifest["config"]["user"]["spec"] == "scripted:persona"
    words = ("run", RETURNS, "--model", "scripted:golden", "-n", 4, "--run", "runs/alone", "--json")
    assert sandlot(*words, cwd=talked).code == 0
    alone = json.loads((talked / "runs/alone/manifest.json").read_text())
    assert alone["fingerprints"]["environment"] == manifest["fingerprints"]["environment"]
    assert alone["fingerprints"]["setting"] != manifest["fingerprints"]["setting"]
    assert "compare anyway" in refused(sandlot("compare", "runs/made", "runs/alone", cwd=talked))


def test_what_the_user_said_is_marked_and_its_player_named(sandlot, talked):
    shown = sandlot("show", "runs/made/return-001/0", cwd=talked).out
    assert [line[:1] for line in shown.splitlines() if " user: " in line] == [" ", "~", "~", "~"]
    environment = sandlot("show", RETURNS, cwd=talked)
    assert "played by a model, `--user MODEL`" in environment.out


def test_a_rollout_with_a_user_is_replayed_with_what_the_user_said(sandlot, talked):
    again = sandlot("replay", "runs/made/return-001/0", "--json", cwd=talked)
    assert again.code == 0, again
    assert [event["kind"] for event in again.json["events"]] == []
    assert again.json["outcome"]["score"]["value"] == 1.0
    health = sandlot("health", "runs/made", "--json", cwd=talked)
    assert health.code in {0, 3}, health


def test_another_agent_that_goes_on_is_answered_and_not_talked_past(sandlot, talked):
    words = ("replay", "runs/made/return-001/0", "--until", 1, "--model", "scripted:constant:Nice weather.", "--json")
    again = sandlot(*words, cwd=talked)
    said = [node["message"]["parts"][0]["text"] for node in again.json["nodes"] if node["message"].get("agent") == "user"]
    assert len(said) > 3
    assert set(said[1:]) == {WAITING}
    assert again.json["outcome"]["score"]["value"] < 1.0


def test_another_environments_persona_cannot_be_played(sandlot, tmp_path):
    said = refused(
        sandlot("run", ENVIRONMENTS / "arithmetic", "--model", "scripted:golden", "--user", "scripted:echo", cwd=tmp_path)
    )
    assert "has no persona for a model to play" in said
    said = refused(sandlot("run", RETURNS, "--model", "scripted:golden", "--user", "scripted:golden", cwd=tmp_path))
    assert "the golden solution plays the agent" in said
    assert "unknown scripted policy" in refused(
        sandlot("run", RETURNS, "--model", "scripted:golden", "--user", "scripted:x", cwd=tmp_path)
    )


def test_a_user_that_fails_leaves_no_score(sandlot, tmp_path):
    words = ("run", RETURNS, "--model", "scripted:golden", "--user", "scripted:crash", "-n", 3, "--json")
    done = sandlot(*words, cwd=tmp_path)
    assert done.code == 1, done
    assert (done.json["scored"], done.json["failed"]["model"]) == (0, 3)


def test_a_user_is_measured_and_told_in_exit_codes(sandlot, tmp_path):
    good = sandlot("simulator", RETURNS, "--user", "scripted:persona", "--tasks", 3, "--json", cwd=tmp_path)
    assert (good.code, good.json["verdict"], good.json["facts"]["value"]) == (0, "pass", 1.0), good
    bad = sandlot("simulator", RETURNS, "--user", "scripted:echo", "--tasks", 3, cwd=tmp_path)
    assert bad.code == 1
    assert "stays the user" in bad.out
    assert "no persona for a model to play" in refused(
        sandlot("simulator", ENVIRONMENTS / "drill", "--user", "rookie", cwd=tmp_path)
    )


def customer(request):
    """Plays the customer over a chat endpoint, from what stands in its instructions."""
    told, heard = request.body["messages"][0]["content"], request.body["messages"][-1]["content"]
    facts = dict(line[2:].split(": ", 1) for line in told.splitlines() if line.startswith("- ") and ": " in line)
    if "euros back" in heard:
        return says("Thank you.\nEND-" + told.split("END-")[1][:6])
    return says(next((words for name, words in facts.items() if name in heard), "I am waiting."))


async def test_a_chat_model_plays_the_customer_and_is_measured_over_its_endpoint(sandlot, tmp_path):
    async with FakeEndpoint(then=customer) as endpoint:
        model = f"openai:fake@{endpoint.url}"
        words = ("run", RETURNS, "--model", "scripted:golden", "--user", model, "-n", "3", "--json")
        done = await anyio.to_thread.run_sync(lambda: sandlot(*words, cwd=tmp_path))
        assert (done.code, done.json["scored"]) == (0, 3), done
        assert len(endpoint.requests) == 9
        words = ("simulator", RETURNS, "--user", model, "--tasks", "2", "--json")
        measured = await anyio.to_thread.run_sync(lambda: sandlot(*words, cwd=tmp_path))
    assert (measured.code, measured.json["verdict"]) == (0, "pass"), measured
