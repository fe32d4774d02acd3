"""`make test-interop` runs every kind, whatever becomes of the others, and its last lines and exit code say what happened."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

FOREIGN = Path(__file__).parent / "foreign"
TOOK = re.compile(r"== \w+ took \d+ s")


@pytest.fixture
def interop(tmp_path):
    """Runs the real command on these kinds, each the body of a script. Returns the exit code and the lines."""
    shutil.copy(FOREIGN / "interop.sh", tmp_path)
    shutil.copy(FOREIGN / "peer_venv.sh", tmp_path)
    (tmp_path / "interop").mkdir()

    def run(kinds: dict[str, str], *only: str, interrupt_at: str = "") -> tuple[int, list[str]]:
        for name, body in kinds.items():
            (tmp_path / "interop" / f"{name}.sh").write_text(f'set -eu\n. "$(dirname "$0")/../peer_venv.sh"\n{body}\n')
        lines: list[str] = []
        with subprocess.Popen(
            ["sh", tmp_path / "interop.sh", tmp_path, *only],
            env=os.environ | {"SANDLOT_FOREIGN": str(tmp_path / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if lines[-1] == interrupt_at:
                    os.killpg(process.pid, signal.SIGINT)
        return process.returncode, [line for line in lines if not TOOK.fullmatch(line)]

    return run


def test_all_kinds_run_after_one_failed_and_the_end_names_each(interop):
    code, lines = interop({"a": "false", "b": 'not_run "it has no moon"', "c": "echo played", "d": "exit 5"})
    assert code == 1
    assert "played" in lines
    assert lines[-3:] == ["passed: c", "failed: a d", "not run: b (it has no moon)"]


def test_a_kind_that_cannot_run_here_fails_nothing(interop):
    code, lines = interop({"a": "true", "b": 'not_run "it has no moon"', "c": 'not_run "nor a sun"'})
    assert code == 0
    assert lines[-3:] == ["passed: a", "not run: b (it has no moon)", "not run: c (nor a sun)"]


def test_nothing_that_ran_is_no_success(interop):
    code, lines = interop({"a": "true", "b": 'not_run "it has no moon"'}, "b")
    assert code == 3
    assert lines[-1] == "not run: b (it has no moon)"


def test_one_kind_only(interop):
    code, lines = interop({"a": "false", "ab": "false", "b": "echo played"}, "b")
    assert (code, lines) == (0, ["== b", "played", "passed: b"])


def test_some_kinds_in_the_order_given(interop):
    code, lines = interop({"a": "true", "b": "false", "c": "true"}, "c", "a")
    assert (code, lines) == (0, ["== c", "== a", "passed: c a"])


def test_an_interrupted_run_names_what_passed_and_what_was_not_reached(interop):
    kinds = {"a": "true", "b": "false", "c": "echo here; exec sleep 600", "d": "echo never"}
    code, lines = interop(kinds, interrupt_at="here")
    assert code == 130
    assert lines[-3:] == ["passed: a", "failed: b", "interrupted: c d"]
    assert "never" not in lines


def test_an_unknown_kind_is_refused_with_the_known_ones(interop):
    code, lines = interop({"a": "true", "b": "true"}, "c")
    assert (code, lines) == (2, ["no kind `c`; there are: a b"])


def test_a_program_that_ends_with_the_code_of_a_skip_has_failed(interop):
    """Only `not_run` skips, with its reason."""
    code, lines = interop({"a": "exit 77"})
    assert code == 1
    assert lines[-1] == "failed: a"
