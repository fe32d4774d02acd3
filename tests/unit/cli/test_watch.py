"""`--watch` of the command line: refused before anything starts, and an alert is said, posted, logged and in the exit code."""

from pathlib import Path

from builders.rows import failed
from drive.command_line import NOTES, refused
from fakes.otlp_receiver import receiving
from sandlot.cli.telemetry import open_telemetry
from sandlot.observe.event_log import EventReader
from sandlot.observe.events import AlarmRaised, RolloutEnded

BROKEN = """
from sandlot import Environment, Task

env = Environment("broken")

@env.tasks
def tasks(rng):
    for number in range(6):
        yield Task(id=f"t{number}", prompt="Say anything.")

@env.check(points=1)
def fine(evidence, task):
    return task.id != "t0" or 1 / 0
"""


def rules(folder: Path, webhook: str, above: float) -> Path:
    file = folder / "rules.toml"
    file.write_text(f'webhook = "{webhook}"\n[[rule]]\non = "failure_rate"\nabove = {above}\nat_least = 6\n')
    return file


def test_an_alert_is_said_posted_logged_and_in_the_exit_code(sandlot, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    with receiving() as receiver:
        file = rules(tmp_path, f"{receiver.url}/hook", 0.1)
        done = sandlot("run", "broken.py", "-m", "scripted:noop", "--watch", file, "--run", "r", "--json", cwd=tmp_path)
    assert done.code == 1
    assert "alert: 1 of the last 6 rollouts failed (1 grader), more than 10%" in done.err
    assert receiver.num_requests == 1
    (alarm,) = [event for event in EventReader(tmp_path / "r") if isinstance(event, AlarmRaised)]
    assert alarm.kind == "failure_rate"


def test_a_run_that_is_well_ends_well_with_rules_that_never_speak(sandlot, tmp_path: Path) -> None:
    file = rules(tmp_path, "http://127.0.0.1:9/hook", 0.1)
    done = sandlot("run", NOTES, "-m", "scripted:golden", "--watch", file, "--json", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")


def test_wrong_rules_start_nothing(sandlot, tmp_path: Path) -> None:
    file = rules(tmp_path, "gopher://h", 0.1)
    said = refused(sandlot("run", NOTES, "-m", "scripted:golden", "--watch", file, cwd=tmp_path))
    assert "rules.toml`: webhook: not an http or https address" in said
    assert [path.name for path in tmp_path.iterdir()] == ["rules.toml"]


def test_an_alert_makes_a_run_that_was_well_end_with_1_and_changes_no_other_code(tmp_path: Path) -> None:
    file = rules(tmp_path, "http://127.0.0.1:9/hook", 0.1)
    with open_telemetry(None, None, file) as telemetry:
        assert telemetry.exit_code(0) == 0
        for number in range(6):
            telemetry.receive(RolloutEnded(run="r", task="t", rollout=number, row=failed("t", number)))
        assert [telemetry.exit_code(code) for code in (0, 1, 3)] == [1, 1, 3]
