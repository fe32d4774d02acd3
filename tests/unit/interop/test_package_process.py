"""A foreign program: asked by many threads, ended, hostile."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandlot.core.errors import AuthorError, ConfigError
from sandlot.interop.package_process import PackageProcess, package_version_of

ECHO = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    do = asked["do"]
    if do == "die":
        sys.stderr.write("I fell over")
        sys.exit(3)
    if do == "fail":
        print(json.dumps({"id": asked["id"], "failed": "no such thing"}), flush=True)
    elif do == "raw":
        print(asked["line"], flush=True)
    elif do == "variables":
        print(json.dumps({"id": asked["id"], "result": dict(os.environ)}), flush=True)
    elif do != "sleep":
        print(json.dumps({"id": asked["id"], "result": {"got": asked["value"]}}), flush=True)
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "echo.py").write_text(ECHO)
    return tmp_path / "echo.py"


@pytest.fixture
def process(program):
    opened = PackageProcess(sys.executable, program)
    yield opened
    opened.close()


def test_many_threads_ask_at_once(process):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda value: process.ask("echo", within_s=30, value=value), range(50)))
    assert answers == [{"got": value} for value in range(50)]


def test_a_failure_is_the_environments(process):
    with pytest.raises(AuthorError, match="no such thing"):
        process.ask("fail", within_s=30)
    assert process.ask("echo", within_s=30, value=1) == {"got": 1}


def test_a_program_that_ends_is_quoted(process):
    with pytest.raises(AuthorError, match="I fell over"):
        process.ask("die", within_s=30)
    with pytest.raises(AuthorError, match="has ended"):
        process.ask("echo", within_s=30, value=1)
    assert not process.alive


def test_no_answer_in_time_ends_it(process):
    with pytest.raises(AuthorError, match=r"within 0\.2 s") as caught:
        process.ask("sleep", within_s=0.2)
    assert caught.value.kind == "timeout"
    assert not process.alive


@pytest.mark.parametrize("line", ["no json", "[1]", '{"id": "1"}', '{"id": 1, "result": 5}', "[" * 100_000])
def test_a_line_that_is_no_answer_ends_it(process, line):
    with pytest.raises(AuthorError, match="no answer"):
        process.ask("raw", within_s=30, line=line)


def test_it_gets_only_the_variables_that_are_named(program, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("WANTED", "yes")
    process = PackageProcess(sys.executable, program, variables=("WANTED",))
    given = process.ask("variables", within_s=30)
    process.close()
    assert ("OPENAI_API_KEY" in given, given["WANTED"]) == (False, "yes")
    assert given.keys() <= {*os.environ, "PYTHONDONTWRITEBYTECODE"}


def test_what_cannot_be_started_is_said(program):
    with pytest.raises(ConfigError, match="cannot be run"):
        PackageProcess("/no/python", program)
    with pytest.raises(ConfigError, match="`ABSENT_KEY` is not set"):
        PackageProcess(sys.executable, program, variables=("ABSENT_KEY",))
    with pytest.raises(ConfigError, match="pip install no-such-package"):
        package_version_of(sys.executable, "no-such-package")
    assert package_version_of(sys.executable, "msgspec")


@pytest.mark.parametrize("said", ['1.0", rows=__import__("os")', "1.0\n2.0", "", "9" * 300])
def test_what_is_no_version_is_refused(tmp_path, said):
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nprint({said!r})")
    python.chmod(0o755)
    with pytest.raises(ConfigError, match="which is none"):
        package_version_of(str(python), "nemo-gym")


def test_output_without_end_is_not_read_to_its_end(tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nwhile True: print(1)")
    python.chmod(0o755)
    with pytest.raises(ConfigError, match="more than 4,096 bytes"):
        package_version_of(str(python), "nemo-gym")


def test_who_says_a_version_gets_no_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "1.0")
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nimport os; print(os.environ.get('OPENAI_API_KEY', '2.0'))")
    python.chmod(0o755)
    assert package_version_of(str(python), "nemo-gym") == "2.0"
