"""What tests cost is charged to them, and the list of dear tests only shrinks."""

import subprocess
import sys
from pathlib import Path

import pytest

import costs

ROOT = Path(__file__).parents[1]
LIST = costs.EXPENSIVE.relative_to(ROOT).as_posix()


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def test_the_list_of_dear_tests_only_shrinks():
    versions = git("log", "--reverse", "--format=%H", "--", LIST).split()
    first = next((names for each in versions if (names := git("show", f"{each}:{LIST}"))), "")
    if not first:  # not committed yet, or a copy without its history
        return
    allowed = {line for line in first.splitlines() if not line.startswith("#")}
    new = costs.expensive_tests() - allowed
    assert not new, f"make these cheaper than {costs.FREE_S} CPU-seconds; {LIST} takes no new names: {sorted(new)}"


def test_every_name_in_the_list_is_a_test():
    gone = []
    for name in sorted(costs.expensive_tests()):
        path, _, function = name.partition("::")
        if not (ROOT / path).exists() or f"def {function.partition('[')[0]}(" not in (ROOT / path).read_text():
            gone.append(name)
    assert not gone, f"take these out of {LIST}: {gone}"


@pytest.mark.parametrize(
    ("paid", "listed", "state"),
    [
        (0.4, False, None),
        (0.6, False, "above its price"),
        (3.1, False, "FAILED"),
        (1.9, True, None),
        (2.1, True, "above its price"),
        (12.1, True, "FAILED"),
    ],
)
def test_a_test_has_a_price(paid, listed, state):
    lines = costs.price_list({"t": costs.Cost(rest=paid)}, {"t"} if listed else set(), slowness=1.0)
    assert [line.partition(":")[0] for line in lines] == ([state] if state else [])


def test_on_a_slow_machine_seconds_count_for_less():
    assert costs.price_list({"t": costs.Cost(setup=0.5, rest=0.4)}, set(), slowness=2.0) == []


def test_system_tests_have_no_price():
    assert costs.price_list({"t": costs.Cost(rest=100, system=True)}, set(), slowness=1.0) == []


def test_the_summary_names_the_dearest_tests_and_the_mean():
    charged = {f"t{number}": costs.Cost(setup=1, rest=number) for number in range(30)}
    lines = costs.summary(charged, {}, [2.0, 3.0], slowness=1.0)
    assert "CPU-seconds: 470; tests 465, of which set-up 30; fixtures that tests share 0; collection 5" in lines
    assert [line.split()[1] for line in lines[-costs.SHOWN :]] == [f"t{number}" for number in range(29, 9, -1)]


def test_a_process_that_still_runs_is_counted_with_what_runs_below_it():
    burn = """
import subprocess, sys, time
if len(sys.argv) > 1:
    subprocess.Popen([sys.executable, "-c", sys.argv[1]])
while time.process_time() < 0.1:
    pass
print(flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", burn, burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.readline()
        assert costs.living_s(process.pid) >= 0.05  # the one below it; the kernel counts in hundredths
        assert costs.living_s() >= costs.living_s(process.pid) + 0.05
        process.stdin.close()
