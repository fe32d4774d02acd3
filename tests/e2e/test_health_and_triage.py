"""`sandlot health` and `sandlot triage` as a person types them: honest runs, hostile traces, a damaged file of labels."""

import json
import shutil

import anyio
import pytest

from builders.traces import make_row
from drive.command_line import ENVIRONMENTS, NOTES, refused
from sandlot.analysis.taxonomy import VERSION
from sandlot.core.trace import Failed, Message, Node, Text, ToolCall, Trace
from sandlot.core.types import End, Role, Side
from sandlot.store.directory import open_run

pytestmark = pytest.mark.timeout(300)
ESCAPES = "\x1b]0;owned\x07\x1b[2J[red]bold[/red]"


@pytest.fixture(scope="module")
def made(sandlot, tmp_path_factory):
    """A folder with two runs: `runs/mixed` of `notes`, and `runs/hostile`, whose traces want to harm whoever looks at them."""
    folder = tmp_path_factory.mktemp("made")
    ran = sandlot("run", NOTES, "--model", "scripted:mixed:0.5", "--group", "10", "--run", "runs/mixed", cwd=folder)
    assert ran.code == 0, ran
    anyio.run(write_hostile, folder)
    return folder


async def write_hostile(folder):
    manifest = (folder / "runs/mixed/manifest.json").read_bytes()
    async with open_run(folder / "runs/hostile", manifest=manifest) as store:
        for number in range(12):
            trace = Trace(run="r", task=f"note-{number % 8}", rollout=100 + number, seed=0, end=End.CUT)
            call = ToolCall("1", f"tool\n{ESCAPES}", {"command": f"cat /tests/x {ESCAPES}" + "y" * 200_000})
            trace.append(Node(message=Message(role=Role.USER, parts=(Text(ESCAPES),))))
            parts = (Text(f"{ESCAPES} sys.exit"), call)
            trace.append(Node(message=Message(role=Role.ASSISTANT, parts=parts), parent=0, sampled=True))
            trace.outcome = Failed(
                Side.ENVIRONMENT, "crash", f"it broke {number} {ESCAPES}\nsandlot: all is well" + "z" * 500_000
            )
            await store.add(trace, make_row(trace))


def test_health_says_what_it_found_and_leaves_with_the_right_code(sandlot, made):
    found = sandlot("health", "runs/mixed", cwd=made)
    assert found.code == 0, found
    assert "healthy" in found.out
    assert "32 graded again, all the same" in found.out
    said = sandlot("health", "mixed", "--json", "--replays", 2, cwd=made)
    assert said.code == 0
    marks = {item["name"]: item["mark"] for item in said.json["items"]}
    assert marks["failures"] == marks["replay"] == "ok"
    assert list(marks) == [
        "failures", "model", "crashes", "latency", "timeouts", "survivors", "resolution", "drift", "surge",
        "successes", "regrade", "replay",
    ]  # fmt: skip
    assert said.json["verdict"] == "ok"


def test_health_of_a_broken_run_fails_and_is_safe_to_print(sandlot, made):
    found = sandlot("health", "runs/hostile", cwd=made)
    assert found.code == 1
    assert "\x1b" not in found.out
    assert "12 of 12 rollouts failed" in found.out
    assert "\nsandlot: all is well" not in found.out


def test_triage_shows_clusters_with_the_command_that_shows_one(sandlot, made):
    found = sandlot("triage", "runs/mixed", cwd=made)
    assert found.code == 0, found
    assert "sandlot show runs/mixed/note-" in found.out
    assert "to read" in found.out
    shown = next(line for line in found.out.splitlines() if "sandlot show" in line).partition("sandlot show ")[2].split()[0]
    assert sandlot("show", shown, cwd=made).code == 0
    said = sandlot("triage", "runs/mixed", "--json", cwd=made).json
    assert sum(said["labels"].values()) == said["rollouts"] == said["opened"] == 80
    assert sum(cluster["size"] for cluster in said["clusters"]) == 80 - said["labels"]["ok"]


def test_triage_of_hostile_traces_is_one_cluster_and_safe_to_print(sandlot, made):
    found = sandlot("triage", "runs/hostile", cwd=made)
    assert found.code == 1
    assert "\x1b" not in found.out
    assert len(found.out) < 10_000
    assert "   12  100%  tool_error" in found.out
    assert not any(line.startswith("sandlot: all is well") for line in found.out.splitlines())
    assert len(sandlot("triage", "runs/hostile", "--json", cwd=made).json["clusters"]) == 1


def test_judgements_are_kept_exported_and_counted(sandlot, made, tmp_path):
    shutil.copytree(made / "runs" / "mixed", tmp_path / "runs" / "mixed", ignore=shutil.ignore_patterns("labels.jsonl"))
    kept = sandlot(
        "triage", "runs/mixed", "--label", "note-0/1=model_wrong", "--label", "note-1/2=ok", "--by", "ann", cwd=tmp_path
    )
    assert kept.code == 0, kept
    assert "note-0/1 labelled `model_wrong` by ann" in kept.err
    lines = sandlot("triage", "runs/mixed", "--export", "labels", cwd=tmp_path).lines
    assert [(line["task"], line["rollout"], line["label"], line["by"], line["taxonomy"]) for line in lines] == [
        ("note-0", 1, "model_wrong", "ann", VERSION),
        ("note-1", 2, "ok", "ann", VERSION),
    ]
    said = sandlot("triage", "runs/mixed", "--json", cwd=tmp_path).json
    assert said["review"]["rollouts"] == 2
    assert ("note-0", 1) not in {(each["task"], each["rollout"]) for each in said["proposed"]}
    assert "2 rollouts by 1 person" in sandlot("triage", "runs/mixed", cwd=tmp_path).out


@pytest.mark.parametrize(
    ("judgement", "said"),
    [
        ("note-0/100=wrong", "no label `wrong`; there are: ok, model_wrong"),
        ("note-0/1", "write TASK/ROLLOUT=LABEL"),
        ("note-0/x=ok", "write TASK/ROLLOUT=LABEL"),
        ("note-99/0=ok", "has no trace note-99/0"),
        ("note-0/999=ok", "rollouts of `note-0`"),
    ],
)
def test_a_wrong_judgement_is_refused_and_nothing_of_the_command_is_kept(sandlot, made, judgement, said):
    command = ("triage", "runs/hostile", "--by", "x", "--label", "note-0/100=ok", "--label", judgement)
    assert said in refused(sandlot(*command, cwd=made))
    assert not (made / "runs/hostile/labels.jsonl").exists()


def test_reading_one_after_the_other_asks_until_told_to_stop(sandlot, made):
    answers = "\n?\nnonsense\nhack_suspected it printed PASSED\ns\nq\n"
    read = sandlot("triage", "runs/mixed", "--review", "--by", "bob", stdin=answers, cwd=made)
    assert read.code == 0, read
    assert "no label `nonsense`" in read.err
    assert "spec_ambiguous" in read.err, "the list was shown"
    labels = [json.loads(line) for line in (made / "runs/mixed/labels.jsonl").read_text().splitlines()]
    bobs = [line for line in labels if line["by"] == "bob"]
    assert [line["label"] for line in bobs][1] == "hack_suspected"
    assert bobs[1]["note"] == "it printed PASSED"
    assert len(bobs) == 2
    assert read.out.count("\n--- ") + read.out.startswith("--- ") == 4


def test_reading_a_trace_of_megabytes_shows_its_beginning(sandlot, made):
    read = sandlot("triage", "runs/hostile", "--review", stdin="q\n", cwd=made)
    assert "more characters" in read.out
    assert "\x1b" not in read.out
    assert len(read.out) < 20_000, "a failure's message is long too"


def test_a_damaged_file_of_labels_is_named_and_the_rest_of_it_read(sandlot, made, tmp_path):
    (tmp_path / "runs").mkdir()
    for name in ("manifest.json", "log", "segments", "blobs"):
        (tmp_path / "runs" / "x").mkdir(exist_ok=True)
        (tmp_path / "runs" / "x" / name).symlink_to(made / "runs" / "mixed" / name)
    sandlot("triage", "runs/x", "--label", "note-0/0=ok", "--by", "ann", cwd=tmp_path)
    with (tmp_path / "runs/x/labels.jsonl").open("ab") as file:
        file.write(b'\x00\xff{"half"\n{"task":')
    found = sandlot("triage", "runs/x", "--export", "labels", cwd=tmp_path)
    assert found.code == 1
    assert len(found.lines) == 1
    assert "1 line cannot be read (2)" in found.err
    assert "1 line cannot be read (2)" in sandlot("triage", "runs/x", cwd=tmp_path).out


def test_runs_that_are_not_there_are_refused(sandlot, made):
    for command in (("health", "nowhere"), ("triage", "nowhere"), ("health", "runs/mixed", "--against", "nowhere")):
        assert "no run `nowhere`" in refused(sandlot(*command, cwd=made))


@pytest.mark.parametrize(("twin", "code", "mark"), [("broken", 1, "fail"), ("clean", 0, "ok")])
def test_a_world_that_remembers_is_found_by_playing_again_and_its_clean_twin_is_not(sandlot, tmp_path, twin, code, mark):
    place = ENVIRONMENTS / "broken" / "running-number" / f"{twin}.py"
    sandlot("run", place, "--model", "scripted:golden", "--group", "12", "--run", "runs/x", "--json", cwd=tmp_path)
    found = sandlot("health", "runs/x", "--json", cwd=tmp_path)
    assert found.code == code, found
    assert {item["name"]: item["mark"] for item in found.json["items"]}["replay"] == mark
