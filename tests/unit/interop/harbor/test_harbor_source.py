import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.harbor.importer import HARBOR_IMPORTER
from sandlot.interop.harbor.source import find_tasks, licence_of, read_harbor, read_terminal_bench, script_of
from sandlot.interop.harbor.source import test_requirements as requirements_of

TASK_TOML = """version = "1.0"
[metadata]
difficulty = "easy"
tags = ["files"]
[verifier]
timeout_sec = 30.0
env = { FIXED = "1", SECRET = "${KEY}" }
[agent]
timeout_sec = 60
"""
SCRIPT = """#!/bin/bash
apt-get update && apt-get install -y curl jq
curl -LsSf https://astral.sh/uv/0.7.13/install.sh | sh
uv venv .tbench-testing
uv pip install pytest==8.4.1 'numpy>=2'
# uv pip install nothing
pip install -q requests
uvx -p 3.13 -w pytest==8.4.1 -w pandas pytest /tests/x.py
"""


def harbor_task(folder, toml=TASK_TOML):
    for name in ("environment", "tests", "solution"):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text(toml)
    (folder / "instruction.md").write_text("<!-- benchmark-canary GUID 1 -->\nWrite hello to /out.\n")
    (folder / "environment" / "Dockerfile").write_text("FROM debian:trixie\n")
    (folder / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    (folder / "solution" / "solve.sh").write_text("echo hello > /out\n")
    return folder


def bench_task(folder, yaml="instruction: Do it.\ndifficulty: easy\nmax_test_timeout_sec: 20\n"):
    folder.mkdir(parents=True)
    (folder / "task.yaml").write_text(yaml)
    (folder / "Dockerfile").write_text("FROM debian:trixie\n")
    (folder / "run-tests.sh").write_text("pytest\n")
    (folder / "solution.sh").write_text("true\n")
    return folder


def test_a_harbor_task_is_read_with_its_limits(tmp_path):
    found = read_harbor(harbor_task(tmp_path / "t"))
    assert (found.agent_s, found.tests_s, found.reward) == (60.0, 30.0, "file")
    assert found.instruction == "Write hello to /out."
    assert found.canary
    assert found.tests_env == {"FIXED": "1"}
    assert any("SECRET" in note for note in found.notes)
    assert found.tags == ("easy", "files")


def test_what_a_harbor_task_declares_of_its_machine_is_kept(tmp_path):
    machine = '[environment]\ncpus = 4\nmemory = "4G"\nstorage_mb = 10240\nbuild_timeout_sec = 600.0\nallow_internet = true\n'
    found = read_harbor(harbor_task(tmp_path / "t", TASK_TOML + machine))
    assert found.declared == {
        "time_s": 60, "cpus": 4, "memory_mib": 4096.0, "disk_mib": 10240, "build_s": 600.0, "network": "internet",
    }  # fmt: skip
    assert read_harbor(harbor_task(tmp_path / "odd", TASK_TOML + '[environment]\ncpus = true\nmemory = "x"\n')).declared == {
        "time_s": 60
    }


def test_a_terminal_bench_task_is_read_with_its_limits(tmp_path):
    found = read_terminal_bench(bench_task(tmp_path / "t"))
    assert (found.agent_s, found.tests_s, found.reward) == (360.0, 20.0, "pytest")
    assert found.instruction == "Do it."
    assert not found.canary


@pytest.mark.parametrize(
    ("toml", "why"),
    [
        ("= nonsense", "task.toml"),
        ('[environment]\nos = "windows"\n', "windows"),
        ("[environment]\ngpus = 2\n", "accelerator"),
        ("[verifier]\ntimeout_sec = 1e300\n", "time limit"),
        ("[verifier]\ntimeout_sec = -5\n", "time limit"),
        ("verifier = 3\n", "not a table"),
        ('[[steps]]\nname = "one"\n', "several steps"),
    ],
)
def test_a_harbor_task_that_cannot_be_run_is_refused_with_the_reason(tmp_path, toml, why):
    with pytest.raises(ConfigError, match=why):
        read_harbor(harbor_task(tmp_path / "t", toml))


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\ninstruction: hi\n"


@pytest.mark.parametrize(
    ("yaml", "why"),
    [
        (BOMB, "aliases"),
        ("instruction: !!python/object/apply:os.system ['true']\n", "task.yaml"),
        ("- a\n- b\n", "not a mapping"),
        ("difficulty: easy\n", "no `instruction`"),
        ("instruction: x\nparser_name: swebench\n", "swebench"),
        ("instruction: x\nrun_tests_in_same_shell: true\n", "agent's own shell"),
    ],
)
def test_a_terminal_bench_task_that_cannot_be_run_is_refused_with_the_reason(tmp_path, yaml, why):
    with pytest.raises(ConfigError, match=why):
        read_terminal_bench(bench_task(tmp_path / "t", yaml))


def test_a_task_of_several_containers_is_refused(tmp_path):
    task = bench_task(tmp_path / "t")
    (task / "docker-compose.yaml").write_text("services:\n  client: {}\n  database: {}\n")
    with pytest.raises(ConfigError, match="several containers: client, database"):
        read_terminal_bench(task)


def test_a_manifest_that_is_a_link_is_refused(tmp_path):
    task = harbor_task(tmp_path / "t")
    (task / "task.toml").unlink()
    (task / "task.toml").symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_harbor(task)


def test_what_a_test_script_installs_is_found():
    assert list(requirements_of(SCRIPT)) == [
        ("apt", "jq"),
        ("tests", "pytest==8.4.1"),
        ("tests", "'numpy>=2'"),
        ("python", "requests"),
        ("tests", "pytest==8.4.1"),
        ("tests", "pandas"),
    ]


def test_a_shell_trick_is_no_package():
    assert list(requirements_of("pip install $(touch /tmp/x) `id` ../evil http://example.org/x.whl")) == []


def test_typed_commands_become_a_script_and_key_presses_are_refused(tmp_path):
    file = tmp_path / "solution.yaml"
    file.write_text("- command: echo a\n  append_enter: true\n- command: echo b\n")
    assert script_of(file) == "echo a\necho b\n"
    file.write_text("- command: iHello\n  append_enter: false\n")
    with pytest.raises(ConfigError, match="presses keys"):
        script_of(file)


def test_tasks_and_licences_are_found(tmp_path):
    harbor_task(tmp_path / "all" / "b")
    harbor_task(tmp_path / "all" / "a")
    (tmp_path / "all" / "notes").mkdir()
    (tmp_path / "LICENSE").write_text("MIT License\n")
    assert [each.name for each in find_tasks(tmp_path / "all", "task.toml")] == ["a", "b"]
    assert find_tasks(tmp_path / "all" / "a", "task.toml") == [tmp_path / "all" / "a"]
    assert licence_of(tmp_path / "all" / "a") == "MIT"
    with pytest.raises(ConfigError, match=r"no `task\.yaml`"):
        find_tasks(tmp_path / "all", "task.yaml")


def test_nothing_of_a_task_that_is_left_out_stays(tmp_path):
    task = harbor_task(tmp_path / "tasks" / "t")
    (task / "tests" / "secret").symlink_to("/etc/passwd")
    (tmp_path / "out").mkdir()
    report = HARBOR_IMPORTER.write(str(tmp_path / "tasks"), tmp_path / "out", limit=None)
    assert (report.tasks, len(report.left_out)) == ((), 1)
    assert "is a link" in report.left_out[0].why
    assert [path for path in tmp_path.joinpath("out").rglob("*") if path.is_file()] == []


def test_a_comment_of_a_test_script_names_no_package():
    script = "uv pip install pytest==8.4.1 mujoco # a fresh installation in the new venv\npip install 'a#b' c#d  # e\n"
    assert list(requirements_of(script)) == [("tests", "pytest==8.4.1"), ("tests", "mujoco")]


def test_a_version_of_a_debian_package_that_the_tests_pin_is_dropped_with_a_note(tmp_path):
    task = bench_task(tmp_path / "t")
    (task / "run-tests.sh").write_text("apt-get install -y curl=8.5.0-2ubuntu10.6 binutils=2.42-4ubuntu2.5 gcc\npytest\n")
    assert list(requirements_of((task / "run-tests.sh").read_text())) == [("apt", "binutils"), ("apt", "gcc")]
    (note,) = read_terminal_bench(task).notes
    assert note == "the tests pin versions of Debian packages, and get those of the image's release: binutils, curl"
