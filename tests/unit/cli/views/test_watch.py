"""`sandlot watch`: pictures of live and ended runs and trainings, on a terminal and in a file."""

import json

import msgspec
import pytest
from rich.text import Text

import sandlot
from builders import rows
from builders.stored_runs import store_rows
from sandlot.analysis.alarm import Alarm
from sandlot.analysis.picture import RunViewer
from sandlot.analysis.training_log import FILE
from sandlot.cli.views.watch import print_picture, watch_run, watch_run_json
from sandlot.observe.event_log import open_event_log
from sandlot.observe.events import LoopLagged, RolloutBegan, RunSteered, ToolCalled
from sandlot.observe.training_records import Learned, Measured
from sandlot.run.results import Sitting, note_sitting
from sandlot.store.lock import write_lock

ATTACK = "\x1b]0;owned\x07[red]\x1b[2J"
RECIPE = {"name": "sums", "model": "rookie", "steps": 5, "tasks": 2, "group": 2}
STEP = Learned(
    version=3, reward=0.512, passed=0.25, outcome=0.25, rollouts=4, failed=1, groups=2, informative=1, loss=float("nan"),
    norm=2.0, tokens=100, shared=1.0, kl=None, entropy=0.7, clipped=0.0, staleness=1, sampled=80, seconds=4.0, update_s=1.0,
    phases={"model": 2.0},
)  # fmt: skip
HELDOUT = Measured(
    version=3, mean=0.75, low=0.65, high=0.85, passed=0.5, passed_low=0, passed_high=1, rollouts=4, failed=0, run="evaluations/3"
)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return sandlot.run("arithmetic", "scripted:golden", rollouts=4, runs=tmp_path_factory.mktemp("one")).path / "manifest.json"


def plan(place, count: int):
    file = place / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"num_rollouts": count}))
    return place


def test_a_live_run_shows_what_is_in_flight_and_why_others_failed(manifest, tmp_path, capsys):
    made = [rows.scored("easy", 0, 0.5, started=1.0), rows.failed(ATTACK, 0, side="sandbox", kind="crash", started=2.0)]
    place = plan(store_rows(tmp_path / "made", manifest, made), 4)
    with open_event_log(place) as sink:
        sink(RolloutBegan(run="made", task=ATTACK, rollout=5))
        sink(ToolCalled(run="made", task=ATTACK, rollout=5, turn=1, name=ATTACK, seconds=2.0, error=True))
        sink(LoopLagged(max_s=0.5))
        sink(RunSteered(run="made", order="pause", paused=True, at_once=2))
    with write_lock(place):
        picture = RunViewer(place).look()
        print_picture(picture)
    assert (picture.state, picture.exit_code) == ("paused", 3)
    assert picture.progress.sides == {"sandbox": 1}
    shown = capsys.readouterr().out
    for part in ("2 of 4 rollouts", "score 0.500", "1 failed", "sandbox 1", "in flight: 1", "500 ms", "slowest tools", "2.00 s"):
        assert part in shown, part
    assert shown.index("failed: sandbox") < shown.index("easy/0"), "the newest first"
    assert "\x1b" not in shown
    assert "[red]" in shown, "markup of others is text"


def test_watching_ends_with_the_run_and_takes_its_exit_code(manifest, tmp_path, capsys):
    good = store_rows(tmp_path / "good", manifest, [rows.scored("t", number) for number in range(4)])
    bad = store_rows(tmp_path / "bad", manifest, [*(rows.scored("t", n) for n in range(3)), rows.failed("t", 3, side="grader")])
    cut = plan(store_rows(tmp_path / "cut", manifest, [rows.scored("t", 0)]), 4)
    note_sitting(cut, Sitting(wall_s=1, cpu_s=1, stopped=f"interrupted {ATTACK}"))
    codes = {place.name: watch_run(RunViewer(place), 0.1).exit_code for place in (good, bad, cut)}
    assert codes == {"good": 0, "bad": 1, "cut": 3}
    shown = capsys.readouterr().out
    assert "4 of 4 rollouts" in shown
    assert "incomplete: interrupted" in shown
    assert "\x1b" not in shown


def test_a_training_shows_steps_held_out_scores_and_alarms(manifest, tmp_path, capsys):
    place = store_rows(tmp_path / "sums", manifest, [rows.scored("t", 0)])
    (place / "recipe.json").write_text(json.dumps(RECIPE))
    (place / "summary.json").write_text(json.dumps({"verdict": "complete"}))
    alarm = Alarm(version=3, reward_rise=0.3, outcome_rise=0.0, reward_evidence=200.0, gap_evidence=300.0)
    (place / FILE).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in (STEP, HELDOUT, alarm)))
    picture = RunViewer(place).look()
    print_picture(picture)
    shown = capsys.readouterr().out
    assert (picture.state, picture.exit_code) == ("complete", 1)
    for part in ("3 of 5 steps", "0.512", "1 of 2", "3: 0.750 (0.650 to 0.850)", "version 3", "(warned)"):
        assert part in shown, part
    (place / FILE).write_bytes(msgspec.json.encode(STEP) + b"\n")
    assert RunViewer(place).look().exit_code == 0
    with write_lock(place):
        live = RunViewer(place).look()
    assert live.training is not None
    assert live.training.doing.startswith("step 4:")


def test_json_is_one_object_or_a_line_per_refresh(manifest, tmp_path, capfdbinary):
    place = store_rows(tmp_path / "made", manifest, [rows.scored(ATTACK, number) for number in range(4)])
    for follow in (False, True):
        watch_run_json(RunViewer(place), 0.1, follow=follow)
        printed = capfdbinary.readouterr().out
        shown = json.loads(printed)
        assert shown["state"] == "complete"
        assert shown["progress"]["rollouts"] == 4
        assert len(shown["progress"]["last"]) == 4
        assert b"\x1b" not in printed
        assert not follow or printed.count(b"\n") == 1


def test_a_picture_on_a_terminal_keeps_to_its_width(manifest, tmp_path, monkeypatch, capsys):
    place = store_rows(tmp_path / "made", manifest, [rows.scored("long" * 40, number) for number in range(4)])
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "60"}.items():
        monkeypatch.setenv(name, value)
    watch_run(RunViewer(place), 0.1)
    lines = Text.from_ansi(capsys.readouterr().out).plain.splitlines()
    assert any("4 of 4" in line for line in lines)
    assert max(map(len, lines)) <= 60
