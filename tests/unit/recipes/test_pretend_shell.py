"""The pretend shell does what a real one does with the commands it knows, and says so when it does not know one."""

import subprocess
from pathlib import Path
from random import Random

import pytest

import sandlot
from sandlot.env.module import load_module
from sandlot.env.taskset import tasks_of

pretend = load_module(Path(__file__).parents[3] / "recipes" / "pretend.py")
TEXT = "owl\ncat\nbee\ncat\n"
NUMBERS = "12\n7\n30\n"
COMMANDS = [
    "cat /d/a",
    "cp /d/a /d/out",
    "head -n 1 /d/a > /d/out",
    "tail -n 1 /d/a > /d/out",
    "head -n 2 /d/a | tail -n 1 > /d/out",
    "sed -n 3p /d/a > /d/out",
    "sed -n 9p /d/a > /d/out",
    "wc -l < /d/a > /d/out",
    "cat /d/a | wc -l > /d/out",
    "grep -c cat /d/a > /d/out",
    "grep cat /d/a",
    "sort /d/a > /d/out",
    "sort -n /d/n | tail -n 1 > /d/out",
    "sort -n /d/n | head -n 1 > /d/out",
    "awk '{s+=$1} END {print s}' /d/n > /d/out",
    "tac /d/a > /d/out",
    "sed s/cat/dog/ /d/a > /d/out",
    r"printf '%s\n' one 'two words' > /d/out",
    "echo 42 > /d/out",
    "echo a  b",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_it_prints_and_leaves_what_sh_does(command, tmp_path):
    files = {"/d/a": TEXT, "/d/n": NUMBERS}
    for path, text in files.items():
        place = tmp_path / path.removeprefix("/d/")
        place.write_text(text)
    printed = pretend.run(command, files)
    real = subprocess.run(["sh", "-c", command.replace("/d/", f"{tmp_path}/")], capture_output=True, text=True, check=True)
    assert printed == (real.stdout or "(no output)")
    assert files == {f"/d/{path.name}": path.read_text() for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("cat /d/none", "No such file"),
        ("rm -rf /", "rm: not found"),
        ("echo 'open", "No closing quotation"),
        ("cat /d/a && cat /d/a", "knows no `&&`"),
        ("echo $(cat /d/a)", "knows no"),
        ("> /d/out", "no command"),
        ("cat <", "unexpected end"),
        ("cat | | cat", "no command"),
        ("", "no command"),
        ("awk 'BEGIN {while (1) {}}'", "this shell knows"),
        ("sed 's/(a+)+$/b/e' /d/a", "this shell knows"),
        ("wc /d/a", "this shell knows"),
        ("grep", "no pattern"),
        ("cp /d/a", "give a file and a place"),
        ("head -n x /d/a", "No such file"),
        ("printf %d 3", "this shell knows"),
    ],
)
def test_what_it_cannot_do_is_a_complaint_with_an_exit_code(command, said):
    files = {"/d/a": TEXT}
    printed = pretend.run(command, files)
    assert said in printed
    assert printed.endswith("[exit code 1]")
    assert files == {"/d/a": TEXT}


def test_anything_typed_at_it_is_answered():
    rng = Random(3)
    words = [
        *pretend.COMMANDS,
        "/d/a",
        "/d/b",
        "-n",
        "-c",
        "-l",
        "1",
        "|",
        ">",
        "<",
        "'",
        '"',
        "\\",
        "s/a/b/",
        "2p",
        "$1",
        "\0",
        "é",
    ]
    for _ in range(2000):
        files = {"/d/a": TEXT}
        printed = pretend.run(" ".join(rng.choices(words, k=rng.randint(1, 8))), files)
        assert isinstance(printed, str)
        assert all(len(text) <= pretend.MOST for text in files.values())


def test_a_model_meets_the_same_prompt_and_tools_and_golden_solutions_get_full_marks(tmp_path):
    env, drill = pretend.env, pretend.drill()
    assert [tool.spec for tool in env.tools] == [tool.spec for tool in drill.tools]
    assert (env.system, env.limits) == (drill.system, drill.limits)
    run = sandlot.run(env, "scripted:golden", tasks=tuple(task.id for task in tasks_of(env)[::20]), runs=tmp_path)
    assert {row.score for row in run.rows} == {1.0}
