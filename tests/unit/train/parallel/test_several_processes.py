"""One batch, one or two processes: the same losses, norms, figures, weights and state, in fp64, whoever gets what of it."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drive.ports import free_port
from sandlot.train.parallel.division import balance
from unit.train.parallel import shared_batches
from unit.train.parallel.shared_batches import CASES, begun, continued, work

pytestmark = [pytest.mark.timeout(300), pytest.mark.system]  # three times half of torch is imported

CONTINUED = ("a critic in some groups", "adapters")


def started_ranks(count: int, script: str, *words: object) -> list[subprocess.Popen]:
    """What `torchrun` does, without the seconds that it takes to import."""
    tests = Path(shared_batches.__file__).parents[3]
    common = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent / "src")]),
        "OMP_NUM_THREADS": "1",
        "TORCHELASTIC_RUN_ID": "test",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(count),
    }
    return [
        subprocess.Popen([sys.executable, script, *map(str, words)], env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(count)
    ]


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    """What two processes came to: computed once, by whichever test process is first; the others wait for it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "several-processes"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "found.pt").is_file():
            compute(folder)
    return torch.load(folder / "found.pt")


def compute(folder: Path) -> None:
    for name in CONTINUED:
        torch.save(begun(CASES[name]), folder / f"{name}.pt")
    processes = started_ranks(2, shared_batches.__file__, folder)
    assert [process.wait(timeout=170) for process in processes] == [0, 0]


def same(one: dict, two: dict) -> None:
    assert len(one["updates"]) == len(two["updates"])
    for own, other in zip(one["updates"], two["updates"], strict=True):
        assert own == pytest.approx(other, abs=1e-11, rel=1e-11)
    alike(one["weights"], two["weights"])
    alike(one["state"]["critic"] or {}, two["state"]["critic"] or {})
    states = one["state"]["optimiser"]["state"], two["state"]["optimiser"]["state"]
    assert one["state"]["steps"] == two["state"]["steps"]
    assert states[0].keys() == states[1].keys()
    for number in states[0]:
        alike(states[0][number], states[1][number])


def alike(one: dict, two: dict) -> None:
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert type(two[name]) is torch.Tensor
        torch.testing.assert_close(two[name], tensor, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_two_processes_learn_what_one_does(found, name):
    same(work(CASES[name]), found[name])


@pytest.mark.parametrize("name", CONTINUED)
def test_what_one_process_kept_two_go_on_with_and_the_other_way_round(found, name):
    whole = work(CASES[name])
    whole["updates"] = whole["updates"][-1:]
    same(whole, found[f"{name}, continued"])
    same(whole, continued(CASES[name], found[f"{name}, begun"]))


@given(st.lists(st.floats(0, 1e9), max_size=40), st.integers(1, 6))
def test_every_piece_has_one_process_and_none_has_much_more_than_the_rest(costs, count):
    shares = balance(costs, count)
    assert len(shares) == count
    assert sorted(piece for share in shares for piece in share) == list(range(len(costs)))
    assert all(share == sorted(share) for share in shares)
    loads = [sum(costs[piece] for piece in share) for share in shares]
    # Who has most was given its last piece when it had least: without that piece it is below the mean.
    assert max(loads) <= sum(costs) / count + max(costs, default=0) + 1e-3
