import gzip
import json

import pytest

from sandlot import Scored, load, run
from sandlot.core.errors import ConfigError
from sandlot.interop.humaneval.importer import HumanEvalImporter

ROWS = [
    {
        "task_id": f"HumanEval/{number}",
        "prompt": f'def add(a, b):\n    """The sum, and {number}."""\n',
        "entry_point": "add",
        "canonical_solution": f"    return a + b + {number}\n",
        "test": f"def check(candidate):\n    assert candidate(1, 2) == {number + 3}\n    assert candidate(0, 0) == {number}\n",
    }
    for number in range(2)
]
GOOD = "```python\n    return a + b + 0\n```"
READS_FRAMES = """\
    import sys
    expected = sys._getframe(1).f_code.co_consts
    return max(value for value in expected if isinstance(value, int)) if a else 0
"""
WRITES_NONSENSE = """\
    import os
    for fd in range(3, 9):
        try:
            os.write(fd, b"[" * 5000 + b"\\n")
        except OSError:
            pass
"""
ANSWERS = {
    "    return a + b + 0\n": 1,
    "```python\n    return a + b + 0\n```": 1,
    "Here it is:\n```python\ndef add(a, b):\n    return sum((a, b))\n```\nDone.": 1,
    "": 0,
    "    return a - b\n": 0,
    "    return (": 0,
    "    import os; os._exit(0)\n": 0,
    "    raise SystemExit(0)\n": 0,
    "    while True: pass\n": 0,
    "    pass\ndef check(candidate): pass\n": 0,
    "    class All(int):\n        def __eq__(self, other): return True\n    return All()\n": 0,
    "    import os\n    for fd in range(3, 9):\n        try: os.write(fd, b'x' * 500)\n        except OSError: pass\n": 0,
    "    from unittest.mock import ANY\n    return ANY\n": 0,
    READS_FRAMES: 0,
    WRITES_NONSENSE: 0,
    "    import os, signal\n    os.kill(os.getppid(), signal.SIGKILL)\n    return a - b - 1\n": 0,
    "    return type('Sum', (int,), {})(a + b)\n": 1,
    "    raise AssertionError\n": 0,
    "    pass\nimport builtins, atexit\nbuiltins.AssertionError = type('Quiet', (BaseException,), {})\n": 0,
}


@pytest.fixture
def folder(tmp_path):
    rows = tmp_path / "rows.jsonl.gz"
    rows.write_bytes(gzip.compress("\n".join(map(json.dumps, [*ROWS, {"task_id": "broken"}])).encode()))
    made = tmp_path / "env"
    made.mkdir()
    report = HumanEvalImporter().write(str(rows), made, limit=None)
    assert [task.id for task in report.tasks] == ["HumanEval-0", "HumanEval-1"]
    assert [left.what for left in report.left_out] == ["broken"]
    checks = (made / "checks.py").read_text()
    assert "CPU_S, WALL_S = 3, 30\n" in checks
    (made / "checks.py").write_text(checks.replace("CPU_S, WALL_S = 3, 30\n", "CPU_S, WALL_S = 1, 30\n"))  # the least there is
    return made


def test_the_canonical_solution_gets_full_marks(folder, tmp_path):
    assert {trace.outcome.score.value for trace in run(folder, "scripted:golden", runs=tmp_path)} == {1.0}


@pytest.mark.parametrize(("answer", "right"), ANSWERS.items())
def test_answers_are_graded_by_what_the_tests_say(folder, tmp_path, monkeypatch, answer, right):
    env = load(folder)

    async def say(agent, task):
        await agent.say(answer)

    monkeypatch.setattr(env.marked, "solution", say)
    [trace] = run(env, "scripted:golden", tasks=("HumanEval-0",), runs=tmp_path)
    assert isinstance(trace.outcome, Scored), trace.outcome
    assert trace.outcome.score.value == right


def test_a_bomb_and_what_is_no_json_are_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_text("{not json")
    with pytest.raises(ConfigError, match="line 1"):
        HumanEvalImporter().write(str(tmp_path / "rows.jsonl"), tmp_path, limit=None)
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(ConfigError, match="cannot be unpacked"):
        HumanEvalImporter().write(str(tmp_path / "cut.jsonl.gz"), tmp_path, limit=None)


def test_tests_whose_arguments_follow_from_results_ask_again(tmp_path):
    row = ROWS[0] | {"test": "def check(candidate):\n    assert candidate(candidate(1, 2), candidate(2, 2)) == 7\n"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    made = tmp_path / "env"
    made.mkdir()
    HumanEvalImporter().write(str(tmp_path / "rows.jsonl"), made, limit=None)
    [golden] = run(made, "scripted:golden", runs=tmp_path)
    assert golden.outcome.score.value == 1
    env = load(made)

    async def say(agent, task):
        await agent.say("    return a + b + 1\n")

    env.marked.solution = say
    [wrong] = run(env, "scripted:golden", runs=tmp_path)
    assert wrong.outcome.score.value == 0
