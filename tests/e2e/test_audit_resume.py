"""An audit that is stopped in the middle goes on where it was, and says the same as one that was not."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drive.command_line import environ

pytestmark = pytest.mark.timeout(300)
ADD = """
from sandlot import Ask, Score, environment

@environment("add", tasks=4)
def add(rng):
    a, b = rng.randrange(100), rng.randrange(100)
    answer = yield Ask(f"What is {a}+{b}?", golden=str(a + b))
    yield Score(answer.strip() in ("", str(a + b)))
"""


def audit(
    folder: Path, runs: str, *, stop_at: str = "", by: signal.Signals = signal.SIGKILL, starter: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Run an audit; where `stop_at` is the layer of the probe that has just ended, send it a signal."""
    command = [*starter, sys.executable, "-m", "sandlot", "audit", "add.py", "--runs", runs]
    said: list[str] = []
    own = environ(XDG_CACHE_HOME=str((folder / runs).resolve().parent / "cache"))
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=own) as process:
        try:
            for line in process.stderr:
                said.append(line)
                if stop_at and line.strip().startswith(stop_at) and "earlier" not in line:
                    process.send_signal(by)
                    stop_at = ""
            code = process.wait()
        finally:
            process.kill()  # one that goes on when the test is out of time
    return code, "".join(said)


def result(folder: Path, runs: str) -> dict:
    (file,) = (folder / runs / "audits").glob("add-*/audit.json")
    return json.loads(file.read_text())


def probes(found: dict) -> dict[str, bool]:
    return {probe["name"]: probe["earlier"] for layer in found["layers"] for probe in layer["probes"] if probe["state"] == "ran"}


@pytest.mark.system
def test_an_audit_that_was_stopped_twice_says_what_one_without_a_stop_says(tmp_path):
    (tmp_path / "add.py").write_text(ADD)
    code, said = audit(tmp_path, "stopped", stop_at="grader", by=signal.SIGINT)
    assert code == 130, said
    assert "the same command continues" in said
    code, said = audit(tmp_path, "stopped", stop_at="scripted")
    assert code == -signal.SIGKILL
    assert not list((tmp_path / "stopped").glob("audits/*/audit.json"))
    assert list((tmp_path / "stopped").glob("audits/*/unfinished/*.json"))
    code, said = audit(tmp_path, "stopped")
    whole, _ = audit(tmp_path, "whole")
    assert code == whole == 1
    resumed, straight = result(tmp_path, "stopped"), result(tmp_path, "whole")
    assert [finding["id"] for finding in resumed["findings"]] == [finding["id"] for finding in straight["findings"]]
    assert resumed["verdict"] == straight["verdict"] == "FIX"
    assert probes(resumed).keys() == probes(straight).keys()
    again = {line.split()[1] for line in said.splitlines() if "not run again" in line}
    assert again == {name for name, earlier in probes(resumed).items() if earlier} >= {"cached-state", "hollow-answers"}
    assert not any(probes(straight).values())
    assert not list((tmp_path / "stopped").glob("audits/*/unfinished"))


def test_ctrl_c_stops_an_audit_that_was_started_with_sigint_ignored(tmp_path):
    """A shell without job control starts `command &` this way, and its children inherit it."""
    (tmp_path / "add.py").write_text(
        "import threading\n" + ADD.replace("    yield Score", "    threading.Event().wait()\n    yield Score")
    )
    background = ("sh", "-c", 'trap "" INT; exec "$@"', "script")
    code, said = audit(tmp_path, "stopped", stop_at="static", by=signal.SIGINT, starter=background)
    assert code == 130, said
    assert "the same command continues" in said


@pytest.mark.system
def test_a_changed_environment_starts_anew_and_a_namesake_elsewhere_is_another(tmp_path):
    (tmp_path / "add.py").write_text(ADD)
    assert audit(tmp_path, "runs", stop_at="static")[0] == -signal.SIGKILL
    (tmp_path / "add.py").write_text(ADD.replace('("", str', "(str"))
    assert "not run again" not in audit(tmp_path, "runs", stop_at="grader")[1]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "add.py").write_text((tmp_path / "add.py").read_text())
    assert "not run again" not in audit(tmp_path / "other", "../runs", stop_at="grader")[1]
    assert len(list((tmp_path / "runs/audits").glob("add-*"))) == 2
