"""Every command as a person types it: a process of its own, stdout is the result, exit codes as documented."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from drive.command_line import ENVIRONMENTS, NOTES, environ, refused, started
from sandlot.core.disk import DRAFT

ARITHMETIC = ENVIRONMENTS / "arithmetic"
KEYS = {
    "run", "rollouts", "scored", "failed", "cancelled", "score", "pass_rate", "turns", "cpu_s", "wall_s", "verdict",
}  # fmt: skip


@pytest.fixture(scope="module")
def made(sandlot, tmp_path_factory) -> Path:
    """A folder in which two finished runs of `notes` lie, `runs/golden` and `runs/nothing`."""
    folder = tmp_path_factory.mktemp("made")
    for name, model in (("golden", "scripted:golden"), ("nothing", "scripted:noop")):
        ran = sandlot("run", NOTES, "--model", model, "--run", f"runs/{name}", cwd=folder)
        assert ran.code == 0, ran
    return folder


# -- run ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "code", "verdict", "ends", "outcomes"),
    [
        ("golden", 0, "complete", {"done"}, {"scored"}),
        ("noop", 0, "complete", {"done"}, {"scored"}),
        ("refuse", 0, "complete", {"refused"}, {"scored"}),
        ("echo", 0, "complete", {"done"}, {"scored"}),
        ("constant:42", 0, "complete", {"done"}, {"scored"}),
        ("random", 0, "complete", {"done"}, {"scored"}),
        ("mixed:0.5", 0, "complete", {"done"}, {"scored"}),
        ("crash", 1, "stopped", {"cut"}, {"failed model crash"}),
        ("hang", 0, "complete", {"time_limit"}, {"scored"}),
        ("malformed", 0, "complete", {"done"}, {"scored"}),
        ("loop", 0, "complete", {"turn_limit"}, {"scored"}),
        ("flood", 0, "complete", {"done"}, {"scored"}),
    ],
)
def test_every_scripted_policy_lands_in_its_class(sandlot, tmp_path, model, code, verdict, ends, outcomes):
    ran = sandlot("run", NOTES, "--model", f"scripted:{model}", "--run", "here", "--json", cwd=tmp_path)
    said = ran.json
    assert set(said) == KEYS
    assert (ran.code, said["verdict"]) == (code, verdict), ran
    from sandlot import Run

    rows = list(Run(tmp_path / "here").rows)
    assert {row.end for row in rows} == ends
    assert {" ".join(filter(None, (row.outcome, row.side, row.kind))) for row in rows} == outcomes
    assert all((row.score is None) == (row.outcome != "scored") for row in rows), "a failure has a reward"
    assert said["scored"] + sum(said["failed"].values()) + said["cancelled"] == said["rollouts"]


def test_hundreds_of_golden_rollouts_of_arithmetic(sandlot, tmp_path):
    ran = sandlot("run", ARITHMETIC, "--model", "scripted:golden", "--rollouts", 400, "--json", cwd=tmp_path)
    said = ran.json
    assert (ran.code, said["rollouts"], said["scored"], said["pass_rate"], said["turns"]) == (0, 400, 400, 1.0, 400)
    assert said["score"]["mean"] == 1.0
    assert (tmp_path / said["run"] / "manifest.json").is_file()


def test_without_json_the_summary_is_on_stdout_and_progress_on_stderr(sandlot, tmp_path):
    ran = sandlot("run", NOTES, "--model", "scripted:mixed:0.5", "--group", 2, cwd=tmp_path)
    assert ran.code == 0
    assert "complete" in ran.out
    assert "full marks" in ran.out
    assert ran.err.startswith("16 rollouts of 8 tasks -> runs/notes-scripted-mixed-0-5-")
    assert ran.err.count("\n") == 1, ran.err
    assert "\x1b" not in ran.out + ran.err


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_what_a_dry_run_prints_can_be_run(sandlot, tmp_path, form):
    words = ("run", NOTES, "--model", "scripted:golden", "--task", "note-1", "--group", 2, "--seed", 5)
    (tmp_path / "run.json").write_text(sandlot(*words, "--dry-run", *form, cwd=tmp_path).out)
    ran = sandlot("run", "--config", "run.json", "--json", cwd=tmp_path)
    assert (ran.code, ran.json["scored"]) == (0, 2)
    assert ran.json["run"] == sandlot(*words, "--json", cwd=tmp_path).json["run"].removesuffix("2") + "1"
    beside = sandlot("run", "--config", "run.json", "--group", 3, cwd=tmp_path)
    assert (beside.code, "leave `--group` out" in beside.err) == (2, True)


def test_json_keeps_stderr_quiet(sandlot, made):
    ran = sandlot("run", NOTES, "--model", "scripted:noop", "--json", "--runs", "quiet", cwd=made)
    assert [line for line in ran.err.splitlines() if "blocked" not in line] == []  # a busy machine may block the loop


def test_a_failed_check_has_no_reward_and_exits_1(sandlot, tmp_path):
    (tmp_path / "bad.py").write_text(NOTES.read_text().replace('evidence.state["writes"] == 1', "1 / 0"))
    ran = sandlot("run", "bad.py", "--model", "scripted:golden", "--json", cwd=tmp_path)
    said = ran.json
    assert (ran.code, said["verdict"], said["score"]["mean"]) == (1, "stopped", None)
    assert said["failed"]["grader"] == said["rollouts"] - said["cancelled"]


def test_one_task_one_split_and_a_group(sandlot, tmp_path):
    one = sandlot("run", NOTES, "-m", "scripted:golden", "--task", "note-3", "-g", 3, "--json", cwd=tmp_path).json
    assert one["rollouts"] == 3
    train = sandlot("run", NOTES, "-m", "scripted:golden", "--split", "train", "--json", cwd=tmp_path).json
    assert 0 < train["rollouts"] <= 8


def test_a_dry_run_shows_the_config_and_runs_nothing(sandlot, tmp_path):
    shown = sandlot("run", NOTES, "--model", "scripted:golden", "--dry-run", cwd=tmp_path)
    assert shown.code == 0
    assert '"scripted:golden"' in shown.out
    as_json = sandlot("run", NOTES, "--model", "scripted:golden", "--dry-run", "--json", cwd=tmp_path).json
    assert set(as_json) == {"config", "tasks", "forecast"}
    assert as_json["tasks"] == 8
    assert not (tmp_path / "runs").exists()


def test_several_environments_are_run_at_once_each_with_a_run_of_its_own(sandlot, tmp_path):
    ran = sandlot("run", NOTES, ARITHMETIC, "--model", "scripted:golden", "-n", "4", "--weights", "2,1", "--json", cwd=tmp_path)
    assert ran.code == 0, ran
    assert [(said["verdict"], said["scored"]) for said in ran.json] == [("complete", 4)] * 2
    assert sorted(path.name.partition("-")[0] for path in (tmp_path / "runs").glob("*-1")) == ["arithmetic", "notes"]
    for option, value, said in (("--weights", "2,0", "each of the 2 environments"), ("--run", "here", "is for one environment")):
        wrong = sandlot("run", NOTES, ARITHMETIC, "--model", "scripted:golden", option, value, cwd=tmp_path)
        assert (wrong.code, wrong.out) == (2, "")
        assert said in wrong.err


def test_a_recorded_run_is_a_model(sandlot, made):
    ran = sandlot("run", NOTES, "--model", "replay:runs/golden", "--json", "--run", "runs/replayed", cwd=made)
    assert (ran.code, ran.json["pass_rate"]) == (0, 1.0)


# -- look --------------------------------------------------------------------------------------------------------------


def test_show_an_environment(sandlot, made):
    shown = sandlot("show", NOTES, cwd=made)
    assert shown.code == 0
    assert "write_note(text)" in shown.out
    facts = sandlot("show", NOTES, "--json", cwd=made).json
    assert [tool["name"] for tool in facts["tools"]] == ["write_note", "look"]
    assert facts["tools"][0]["parameters"]["required"] == ["text"]
    assert len(facts["tasks"]) == 8
    assert "key" not in facts["tasks"][0]


def test_show_a_run_by_path_and_by_name(sandlot, made):
    by_path, by_name = (sandlot("show", what, cwd=made) for what in ("runs/golden", "golden"))
    assert (by_path.code, by_name.code) == (0, 0)
    assert by_path.out == by_name.out
    assert "complete" in by_path.out
    assert re.search(r"^note-3 +\w+ +1\.000 +1 of 1 +1 +-$", by_path.out, re.MULTILINE)
    summary = sandlot("show", "runs/golden", "--json", cwd=made).json
    assert (summary["environment"], summary["model"], summary["verdict"]) == ("notes", "scripted:golden", "complete")
    assert [(each["score"], each["passed"]) for each in summary["by_task"]] == [(1.0, 1)] * 8
    traces = sandlot("show", "runs/golden", "--traces", cwd=made).lines
    assert Counter(trace["task"] for trace in traces) == {f"note-{n}": 1 for n in range(8)}
    assert {trace["outcome"]["is"] for trace in traces} == {"scored"}


def test_show_a_trace(sandlot, made):
    shown = sandlot("show", "runs/golden/note-3/0", cwd=made)
    assert shown.code == 0
    assert "-> write_note(" in shown.out
    assert "note_is_right" in shown.out
    trace = sandlot("show", "runs/golden/note-3/0", "--json", cwd=made).json
    assert (trace["task"], trace["rollout"], trace["end"]) == ("note-3", 0, "done")


def test_show_all_attempts_at_a_task(sandlot, made):
    shown = sandlot("show", "runs/nothing/note-3", cwd=made)
    assert shown.code == 0
    assert "0 of 1 scored" not in shown.out
    assert re.search(r"^0 +0\.000", shown.out, re.MULTILINE)
    assert re.search(r"^note_is_right +0 +1 +0$", shown.out, re.MULTILINE)
    rows = sandlot("show", "nothing/note-3", "--json", cwd=made).json["rollouts"]
    assert [(row["task"], row["rollout"], row["score"]) for row in rows] == [("note-3", 0, 0.0)]
    (trace,) = sandlot("show", "nothing/note-3", "--traces", cwd=made).lines
    assert trace["task"] == "note-3"


def test_a_task_that_a_run_does_not_have_is_answered_with_those_it_has(sandlot, made):
    assert "has no task `note-99`; tasks: note-" in refused(sandlot("show", "runs/golden/note-99", cwd=made))


def test_traces_of_an_environment_are_refused(sandlot, made):
    assert "--traces is for a run" in refused(sandlot("show", NOTES, "--traces", cwd=made))


def test_an_environment_shows_its_first_tasks_and_with_all_every_one(sandlot, made):
    short = sandlot("show", ENVIRONMENTS / "helpdesk", cwd=made).out
    assert "... and 220 more: sandlot show" in short
    whole = sandlot("show", ENVIRONMENTS / "helpdesk", "--all", cwd=made).out
    assert len(re.findall(r"^shift-\d+ ", whole, re.MULTILINE)) == 240


def test_an_environment_shows_the_tools_of_its_mcp_server(sandlot, made):
    (made / "served.py").write_text(SERVED)
    (made / "server.py").write_text(SERVER)
    shown = sandlot("show", "served.py", cwd=made)
    assert "mcp tool  double(number)  Twice the number." in shown.out, shown
    assert [tool["name"] for tool in sandlot("show", "served.py", "--json", cwd=made).json["mcp_tools"]] == ["double"]
    (made / "server.py").write_text(f"raise RuntimeError({'x' * 500 + ' the cause'!r})\n")
    broken = sandlot("show", "served.py", cwd=made)
    assert broken.code == 0
    assert "its tools cannot be listed" in broken.out
    assert "the cause\n" in broken.out


def test_tools_of_an_mcp_server_and_a_user_that_a_model_plays(sandlot, made):
    (made / "asked.py").write_text(SERVED.replace('"served"', '"asked"').replace("Task\n", "Agent, Persona, Task\n") + PERSONA)
    (made / "server.py").write_text(SERVER)
    played = sandlot("run", "asked.py", "--model", "scripted:golden", "--user", "scripted:persona", "--json", cwd=made)
    assert played.json["score"]["mean"] == 1.0, played
    assert "--user MODEL" in sandlot("run", "asked.py", "--model", "scripted:golden", cwd=made).err


SERVED = """
import sys
from sandlot import Environment, McpServer, Task
env = Environment("served")
env.mcp(McpServer(name="numbers", command=(sys.executable, "server.py")))
@env.tasks
def tasks(rng):
    yield Task("one", prompt="Double 2.")
@env.check(points=1)
def right(evidence, task):
    return "4" in evidence.answer
"""

PERSONA = """
@env.persona
def customer(task):
    return Persona(who="You are Bo.", facts={"number": "2"}, done="you know the double", solved=("It is 4.",))
@env.solution
async def solve(agent: Agent, task):
    number = await agent.say("Which number?")
    await agent.say(f"It is {await agent.call('double', number=int(number))}.")
"""

SERVER = """
import json, sys
SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
TOOL = {"name": "double", "description": "Twice the number.", "inputSchema": SCHEMA}
for line in sys.stdin:
    asked = json.loads(line)
    given = asked.get("params", {})
    match asked["method"]:
        case "initialize":
            about = {"name": "numbers", "version": "1"}
            done = {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            done = {"tools": [TOOL]}
        case "tools/call":
            done = {"content": [{"type": "text", "text": str(2 * given["arguments"]["number"])}]}
        case _:
            done = {}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": done}), flush=True)
"""


def test_a_reader_that_goes_away_is_no_error(sandlot, made):
    command = f"{sys.executable} -m sandlot show runs/golden --traces | head -c 20"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=made, capture_output=True, check=False, env=environ())
    assert (done.returncode, len(done.stdout), done.stderr) == (0, 20, b"")


def test_a_run_that_is_not_there_is_answered_with_the_nearest(sandlot, made):
    assert "`runs/golden`" in sandlot("show", "runs/gold", cwd=made).err
    assert "`runs/golden`" in sandlot("show", "runs/goldne/x/0", cwd=made).err
    assert "there are, newest first: " in sandlot("show", "runs/zzz", cwd=made).err


def test_list_what_there_is(sandlot, made):
    listed = sandlot("list", ENVIRONMENTS, cwd=made)
    assert listed.code == 0
    for name in ("arithmetic", "helpdesk", "ledger", "golden", "nothing"):
        assert name in listed.out
    as_json = sandlot("list", ENVIRONMENTS, "--json", cwd=made).json
    assert {"arithmetic", "helpdesk", "ledger"} <= {found["name"] for found in as_json["environments"]}
    runs = {entry["run"]: entry for entry in as_json["runs"]}
    golden = runs["runs/golden"]
    assert (golden["environment"], golden["model"], golden["state"]) == ("notes", "scripted:golden", "complete")
    assert (golden["score"], golden["pass_rate"], golden["rollouts"]) == (1.0, 1.0, 8)
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d  complete +0\.000 +0% +8 +notes +scripted:noop", listed.out, re.MULTILINE)


def test_a_run_that_cannot_be_read_does_not_hide_the_others(sandlot, made, tmp_path):
    subprocess.run(["cp", "-r", made / "runs", tmp_path], check=True)
    (tmp_path / "runs" / "golden" / "manifest.json").write_text("{")
    listed = sandlot("list", cwd=tmp_path)
    assert (listed.code, "unreadable" in listed.out, "runs/nothing" in listed.out) == (0, True, True)


def test_compare_two_runs(sandlot, made):
    compared = sandlot("compare", "nothing", "golden", cwd=made)
    assert compared.code == 0
    assert "+1.000" in compared.out
    as_json = sandlot("compare", "nothing", "golden", "--json", cwd=made).json
    assert (as_json["score"]["value"], len(as_json["improved"]), as_json["regressed"]) == (1.0, 8, [])


def test_tokens_of_a_run_without_ids_are_named_as_such(sandlot, made):
    looked = sandlot("tokens", "golden", cwd=made)
    assert looked.code == 1
    assert "8 traces cannot be trained on" in looked.out
    assert "no ids" in looked.out
    as_json = sandlot("tokens", "golden", "--json", cwd=made).json
    assert (as_json["verdict"], as_json["traces"], len(as_json["without_ids"])) == ("no ids", 8, 8)
    assert "no folder" in refused(sandlot("tokens", "golden", "--model", "hf:/nowhere", cwd=made))


# -- again -------------------------------------------------------------------------------------------------------------


def test_regrading_the_same_environment_changes_nothing(sandlot, made):
    again = sandlot("regrade", "runs/golden", cwd=made)
    assert again.code == 0
    assert "8 rollouts graded again, 8 the same, 0 changed" in again.out


def test_regrading_by_changed_checks_says_what_changed_and_exits_1(sandlot, made):
    (made / "notes.py").write_text(NOTES.read_text().replace('["writes"] == 1', '["writes"] == 2'))
    again = sandlot("regrade", "runs/golden", "--env", "notes.py", "--json", cwd=made)
    assert again.code == 1
    assert (again.json["same_environment"], again.json["regraded"], len(again.json["changed"])) == (False, 8, 8)
    people = sandlot("regrade", "runs/golden", "--env", "notes.py", cwd=made)
    assert "4/4 -> 3/4  (written_once)" in people.out


def test_a_trace_is_played_again(sandlot, made):
    again = sandlot("replay", "runs/golden/note-3/0", cwd=made)
    assert (again.code, again.err) == (0, "the replayed turns got the recorded results\n")
    assert "end: done" in again.out
    assert "score: 4/4" in again.out


def test_another_model_goes_on_from_a_turn(sandlot, made):
    again = sandlot("replay", "runs/golden/note-3/0", "--until", 1, "--model", "scripted:noop", "--json", cwd=made).json
    models = [node["model"] for node in again["nodes"] if node["sampled"]]
    assert len(models) == 2
    assert again["outcome"]["score"]["points"] == 0


def test_a_replay_of_no_turns_claims_no_equal_results(sandlot, made):
    again = sandlot("replay", "runs/golden/note-3/0", "--until", 0, "--model", "scripted:golden", cwd=made)
    assert (again.code, again.err) == (0, "no turn was replayed\n")


@pytest.mark.parametrize("form", ["function", "file", "folder"])
@pytest.mark.timeout(300)
def test_a_new_environment_passes_its_own_test_and_runs(sandlot, tmp_path, form):
    made = sandlot("new", "my-first", "--form", form, cwd=tmp_path)
    assert "# my-first\n" in (tmp_path / "environments" / "my-first" / "README.md").read_text()
    assert made.code == 0
    assert all((tmp_path / line).is_file() for line in made.out.splitlines())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "environments/my-first"]
    tested = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environ())
    assert tested.returncode == 0, tested.stdout
    ran = sandlot("run", "environments/my-first", "--model", "scripted:golden", "--json", cwd=tmp_path)
    assert (ran.code, ran.json["pass_rate"]) == (0, 1.0)
    assert "already exists" in refused(sandlot("new", "my-first", "--form", form, cwd=tmp_path))


def test_a_person_plays(sandlot, made):
    lines = '/help\n/look {"path": "x"}\n/look nonsense\n/nothing\n/write_note {"text": "mine"}\nall done\n'
    played = sandlot("play", NOTES, "--task", "note-0", stdin=lines, cwd=made)
    assert played.code == 0
    assert "`x` is not absolute" in played.out
    assert "arguments are a JSON object" in played.out
    assert "There is no tool `nothing`" in played.out
    assert "the note says 'mine'" in played.out
    assert "end: done" in played.out


# -- tidy --------------------------------------------------------------------------------------------------------------


def test_a_rubric_is_linted_and_its_schema_printed(sandlot, tmp_path):
    good = sandlot("rubric", "lint", ENVIRONMENTS / "ledger/rubrics/default.json", cwd=tmp_path)
    assert good.code == 0
    (tmp_path / "rubrics").mkdir()
    bad = tmp_path / "rubrics" / "bad.json"
    bad.write_text('{"format": 1, "checks": [{"kind": "python", "id": "a", "ref": "checks:x", "requires": ["nope"]}]}')
    linted = sandlot("rubric", "lint", bad, "--json", cwd=tmp_path)
    assert linted.code == 1
    assert "error" in {finding["severity"] for finding in linted.json}
    schema = sandlot("rubric", "schema", cwd=tmp_path).json
    assert "checks" in str(schema)


def test_garbage_is_shown_and_then_collected(sandlot, made):
    orphan = made / f"runs/golden/segments/000099.parquet{DRAFT}"
    orphan.write_bytes(b"left by a crash")
    shown = sandlot("gc", "--json", cwd=made).json
    assert shown["removed"] is False
    assert any(item["path"].endswith(orphan.name) for item in shown["removable"])
    assert orphan.exists()
    deleted = sandlot("gc", "--delete", cwd=made)
    assert deleted.code == 0
    assert not orphan.exists()
    assert len(sandlot("show", "runs/golden", "--traces", cwd=made).lines) == 8


def test_the_doctor_looks(sandlot, tmp_path):
    seen = sandlot("doctor", cwd=tmp_path)
    assert seen.code in {0, 1}
    assert "python" in seen.out
    assert {finding["what"] for finding in sandlot("doctor", "--json", cwd=tmp_path).json} >= {"python", "run directory"}


# -- wrong use ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("run", NOTES, "-m", "nope:x"), "no model `nope`; there are: `smollm2`, `rookie`, `hf`"),
        (("run", NOTES, "-m", "smolm2"), "did you mean `smollm2`?"),
        (("run", NOTES, "-m", "hf:"), "write `hf:FOLDER`"),
        (("run", NOTES, "-m", "openai:m@localhost:8000"), "write `openai:NAME@http://localhost:8000`"),
        (("run", NOTES, "-m", "scripted:noop", "--agent-command", "x"), "run it in one with `--image host`"),
        (("run", NOTES, "-m", "scripted:nope"), "known: golden"),
        (("run", NOTES, "-m", "scripted:mixed:7"), "between 0 and 1"),
        (("run", NOTES, "-m", "openai:"), "no name"),
        (("run", NOTES, "-m", "openai:x@ftp://there"), "ftp"),
        (("run", NOTES, "-m", "openai:x@http://127.0.0.1:9/v1"), "no model server answers at http://127.0.0.1:9/v1"),
        (("run", NOTES, "-m", "gpt-4o"), "is `openai:gpt-4o@URL`"),
        (("run", NOTES, "-m", "openai:gpt-4o"), "export OPENAI_API_KEY="),
        (("run", NOTES, "-m", "scripted:goldn"), "did you mean `scripted:golden`?"),
        (("run", ".", "-m", "scripted:golden"), "`.` is a folder without `environment.toml`"),
        (("run", ENVIRONMENTS, "-m", "scripted:golden"), "name one of those in it: "),
        (("run", "folder/typo.py", "-m", "scripted:golden"), "typo.py:1: ImportError: cannot import name 'Enviroment'"),
        (("run", "folder/typo.py", "-m", "scripted:golden"), "did you mean `Environment`?"),
        (("run", "folder/file.py", "-m", "scripted:golden"), 'write `env = Environment("name")`'),
        (("run", NOTES, "-m", "replay:nowhere"), "`nowhere` is not a run"),
        (("run", ENVIRONMENTS / "arithmetix", "-m", "scripted:golden"), "did you mean"),
        (("run", "folder", "-m", "scripted:golden"), "folder without `environment.toml`"),
        (("run", NOTES, "-m", "scripted:golden", "--task", "note-99"), "no task `note-99`"),
        (("run", NOTES, "-m", "scripted:golden", "--price", "cheap"), "0.5/1.5"),
        (("run", NOTES, "-m", "scripted:golden", "--price", "1/nan"), "nan"),
        (("run", NOTES, "-m", "scripted:golden", "--max-usd", "1"), "--price"),
        (("run", NOTES, "-m", "scripted:golden", "--temperature", "nan"), "temperature is nan"),
        (("run", NOTES, "-m", "scripted:golden", "--max-tokens", "0"), "max_tokens is 0"),
        (("run", NOTES, "-m", "scripted:golden", "--rollouts", "0"), "rollouts is 0"),
        (("run", NOTES, "-m", "scripted:golden", "--rubric", "nope"), "rubric `nope`"),
        (("run", ARITHMETIC, "-m", "scripted:golden", "--rubric", "nope"), "leave out rubric `nope`"),
        (("run", NOTES, "-m", "scripted:golden", "--hook", "os:path"), "without `after_turn`"),
        (("run", NOTES, "-m", "scripted:golden", "--harness", "os:getcwd"), "without `name`"),
        (("run", NOTES, "-m", "scripted:golden", "--for-training"), "held out"),
        (("run", NOTES, "-m", "scripted:golden", "--run", "folder/file"), "folder/file"),
        (("run", ENVIRONMENTS / "ledger", "-m", "scripted:golden", "--rubric", "judged"), "--judge"),
        (("show", "nowhere"), "no environment `nowhere`"),
        (("show", "broken"), "broken"),
        (("regrade", "broken"), "broken"),
        (("compare", "nowhere", "elsewhere"), "no run `nowhere`"),
        (("replay", "runs"), "RUN/TASK/ROLLOUT"),
        (("new", "Bad Name"), "lower-case"),
        (("new", "fine", "--in", "folder/file"), "folder/file"),
        (("play", NOTES, "--task", "nope"), "no task `nope`"),
        (("serve", NOTES), "--mcp"),
    ],
)
def test_wrong_use_is_one_sentence(sandlot, tmp_path, words, complaint):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    (tmp_path / "folder" / "file.py").touch()
    (tmp_path / "folder" / "typo.py").write_text("from sandlot import Enviroment")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{not json")
    assert complaint in refused(sandlot(*words, cwd=tmp_path))
    assert not (tmp_path / "runs").exists(), "a refused command leaves nothing behind"


@pytest.mark.parametrize("words", [("run",), ("nope",), ("run", NOTES), ("run", NOTES, "-m", "x", "--split", "nope")])
def test_a_mistyped_command_is_explained(sandlot, tmp_path, words):
    outcome = sandlot(*words, cwd=tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Traceback" not in outcome.err


def test_help_costs_nothing_and_names_every_command(tmp_path):
    helped = started("--help", cwd=tmp_path, COLUMNS="200")
    assert helped.code == 0
    for name in ("doctor", "new", "list", "show", "play", "run", "compare", "regrade", "replay", "rubric", "serve", "gc"):
        assert name in helped.out


def test_a_run_that_another_process_writes_is_refused(sandlot, made):
    from sandlot.store.lock import write_lock

    place = made / "runs" / "golden"
    with write_lock(place):
        said = refused(sandlot("run", NOTES, "--model", "scripted:golden", "--run", "runs/golden", cwd=made))
    assert "runs/golden" in said
