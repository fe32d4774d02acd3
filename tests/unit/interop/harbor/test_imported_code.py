"""The code of an imported environment, in sandboxes of the machine's own image: tests run on what the agent left."""

import textwrap

import pytest

import sandlot
from sandlot import Failed, PythonCheck, Rubric, Scored, Task
from sandlot.interop.folder_writer import EnvironmentDraft, write_environment
from sandlot.interop.harbor import importer

pytestmark = pytest.mark.timeout(300)
KEY = {
    "tests_script": "test.sh",
    "tests_s": 20.0,
    "reward": "file",
    "path": importer._PATH,
    "solution_script": "solve.sh",
    "solution_folder": "/solution",
}


def environment(folder, tests, solution, **key):
    """One task `t` with these scripts."""
    folder.mkdir()
    rubric = Rubric(checks=(PythonCheck(id="tests", ref="checks:tests_pass"),))
    task = Task("t", prompt="do it", key={**KEY, **key}, limits={"grade_s": 60.0})
    draft = EnvironmentDraft(
        name="made", settings={"image": "host"}, tasks=[task], rubrics={"default": rubric}, code=importer.environment_code()
    )
    write_environment(folder, draft)
    for name, script, text in (("tests", "test.sh", tests), ("solution", "solve.sh", solution)):
        (folder / "data" / "t" / name).mkdir(parents=True)
        (folder / "data" / "t" / name / script).write_text(textwrap.dedent(text))
    return folder


def outcome(folder, model="scripted:golden"):
    run = sandlot.run(str(folder), model, runs=folder.parent / f"runs-{folder.name}-{model[9:]}")
    return run.trace("t").outcome


def test_files_modes_owners_links_folders_and_deletions_reach_the_tests(tmp_path):
    tests = """
        reward=0
        [ "$(cat /app/a.txt)" = one ] && [ "$(readlink /app/link)" = a.txt ] && [ -x /app/run.sh ] && [ ! -e /opt/old ] \\
          && [ "$(stat -c %a /app/private)" = 700 ] && [ "$(stat -c %u /app/a.txt)" = 1000 ] && reward=1
        echo $reward > /logs/verifier/reward.txt
    """
    solution = """
        mkdir -p /app/private && chmod 700 /app/private
        echo one > /app/a.txt && chown 1000:1000 /app/a.txt && ln -s a.txt /app/link
        echo '#!/bin/sh' > /app/run.sh && chmod 755 /app/run.sh
        rm -rf /opt/old
    """
    scored = outcome(environment(tmp_path / "env", tests, solution))
    assert isinstance(scored, Scored), scored
    assert scored.score.value == 1.0, scored
    nothing = outcome(tmp_path / "env", "scripted:noop")
    assert isinstance(nothing, Scored), nothing
    assert nothing.score.value == 0.0


@pytest.mark.parametrize(
    "tests",
    ["true", "sleep 60", "echo nan > /logs/verifier/reward.txt", 'echo \'{"a": 1, "b": 0}\' > /logs/verifier/reward.json'],
)
def test_tests_without_a_result_are_a_failure_and_not_a_zero(tmp_path, tests):
    failed = outcome(environment(tmp_path / "env", tests, "true", tests_s=1.0))
    assert isinstance(failed, Failed), failed
    assert failed.side == "grader"


def test_a_part_of_a_reward_is_kept(tmp_path):
    scored = outcome(environment(tmp_path / "env", "echo 0.25 > /logs/verifier/reward.txt", "true"))
    assert isinstance(scored, Scored)
    assert scored.score.value == 0.25


def test_the_agent_cannot_leave_a_reward_or_tests_of_its_own(tmp_path):
    attack = """
        mkdir -p /logs/verifier /tests
        echo 1 > /logs/verifier/reward.txt; echo 1 > /logs/verifier/reward.json
        echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh
        echo /tmp/evil.so > /etc/ld.so.preload
    """
    scored = outcome(environment(tmp_path / "env", "echo 0 > /logs/verifier/reward.txt", attack))
    assert isinstance(scored, Scored), scored
    assert scored.score.value == 0.0


def test_programs_and_settings_of_the_agent_do_not_reach_the_tests(tmp_path):
    """Whatever is found first, loaded by itself, or linked to another place would decide instead of the tests."""
    attack = r"""
        echo 'echo 1 > /logs/verifier/reward.txt' > /tmp/win && chmod 755 /tmp/win
        mkdir -p /usr/local/bin /usr/local/sbin $HOME/.local/bin
        for name in bash sh timeout cat python3 rm; do
            cp /tmp/win /usr/local/bin/$name; ln -s /tmp/win /usr/local/sbin/$name
        done
        cp /tmp/win $HOME/.local/bin/env
        printf '[pytest]\naddopts = -p evil\n' > /pytest.ini; echo 'raise SystemExit(0)' > /conftest.py
        rm -rf /tests; mkdir -p /app/t; echo 'echo 1 > /logs/verifier/reward.txt' > /app/t/test.sh; ln -s /app/t /tests
        touch "/usr/local/bin/x'
\$(rm -f /usr/bin/cat /bin/cat)'"
    """
    tests = """
        source $HOME/.local/bin/env
        [ -e /pytest.ini ] && echo 1 > /logs/verifier/reward.txt
        [ -e /logs/verifier/reward.txt ] || { timeout 5 cat /dev/null; echo 0 > /logs/verifier/reward.txt; }
    """
    scored = outcome(environment(tmp_path / "env", tests, attack))
    assert isinstance(scored, Scored), scored
    assert scored.score.value == 0.0


@pytest.mark.parametrize(
    "tests",
    ["echo 37 > /logs/verifier/reward.txt", "echo 0 > /logs/verifier/reward.txt; echo 1 > /logs/verifier/reward.json"],
)
def test_a_reward_outside_its_range_and_two_rewards_are_no_score(tmp_path, tests):
    assert isinstance(outcome(environment(tmp_path / "env", tests, "true")), Failed)


def test_an_interrupted_pytest_is_not_a_pass(tmp_path):
    tests = "echo '=== short test summary info ==='; echo 'PASSED a::b'; echo '!!!!! KeyboardInterrupt !!!!!'; exit 2"
    assert outcome(environment(tmp_path / "env", tests, "true", reward="pytest")).score.value == 0.0


def test_uv_and_apt_are_answered_without_a_network(tmp_path):
    tests = """
        apt-get update; apt-get install -y curl
        curl -LsSf https://astral.sh/uv/0.7.13/install.sh | sh
        source $HOME/.local/bin/env
        cd /tmp && uv venv .testing && source .testing/bin/activate && uv pip install pytest==8.4.1
        uv run --with x sh -c 'exit 0' && uvx -p 3.13 -w pytest sh -c 'echo 1 > /logs/verifier/reward.txt'
    """
    scored = outcome(environment(tmp_path / "env", tests, "true"))
    assert isinstance(scored, Scored), scored
    assert scored.score.value == 1.0


def test_the_summary_of_pytest_decides_where_there_is_no_reward_file(tmp_path):
    summary = "echo '=== short test summary info ==='; echo 'PASSED a::b'; echo '{0} a::c'"
    good = environment(tmp_path / "good", summary.format("PASSED"), "true", reward="pytest")
    bad = environment(tmp_path / "bad", summary.format("FAILED"), "true", reward="pytest")
    none = environment(tmp_path / "none", "true", "true", reward="pytest")
    assert outcome(good).score.value == 1.0
    assert outcome(bad).score.value == 0.0
    assert isinstance(outcome(none), Failed)
