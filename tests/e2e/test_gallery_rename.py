"""The gallery under other names: the same environments, as far as anybody can tell who does not read names."""

import json
import subprocess
import sys

import pytest

from sandlot import load
from sandlot.env.taskset import tasks_of
from worlds.gallery import NAMES, PLACE, judge_for, played, values


@pytest.fixture(scope="module")
def other_names(tmp_path_factory):
    out = tmp_path_factory.mktemp("renamed") / "out"
    subprocess.run([sys.executable, str(PLACE / "rename.py"), str(out), "--seed", "1"], check=True)
    return out


def test_the_same_seed_gives_the_same_names_and_another_one_others(other_names, tmp_path):
    for seed in ("1", "2"):
        subprocess.run([sys.executable, str(PLACE / "rename.py"), str(tmp_path / seed), "--seed", seed], check=True)
    assert (tmp_path / "1" / "index.json").read_bytes() == (other_names / "index.json").read_bytes()
    assert (tmp_path / "2" / "index.json").read_bytes() != (other_names / "index.json").read_bytes()


@pytest.mark.system
async def test_every_environment_works_under_other_names(other_names):
    index = json.loads((other_names / "index.json").read_text())
    assert [entry["of"] for entry in index] == NAMES
    for entry in index:
        for twin in ("broken", "clean"):
            env, old = load(other_names / entry["folder"] / entry[twin]), load(PLACE / entry["of"] / f"{twin}.py")
            assert env.name != old.name
            own = {tool.spec.name for tool in env.tools} & {tool.spec.name for tool in old.tools}
            assert own <= {"bash"}
            if env.image is None and (twin == "clean" or entry["code"] != "D13"):
                traces = await played(env, tasks=tasks_of(env)[:2], judge=judge_for(entry["of"]))
                assert set(values(traces)) == {1.0}, entry
