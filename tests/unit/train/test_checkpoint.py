"""Checkpoints: a crash at any point leaves a whole one, and what is restored is what was kept."""

import ctypes
import errno
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import torch
from safetensors import SafetensorError

from builders.tiny_models import tiny_shape, write_tiny
from drive.forked import forked
from sandlot.core.errors import ConfigError, StoreError
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder
from sandlot.model.nn.layout import weights_of
from sandlot.model.nn.lora import adapter_weights, add_adapters
from sandlot.train.checkpoint import Checkpoints, TrainingState
from sandlot.train.own_policy import SHARED
from sandlot.train.trainer import Optimisation, Trainer

pytestmark = pytest.mark.timeout(300)  # the first optimiser of a process imports half of torch


class Crash(BaseException):
    """As `kill -9` would: nobody tidies up."""


@pytest.fixture
def kept(tmp_path):
    base = write_tiny(tmp_path / "base")
    torch.manual_seed(1)
    trainer = Trainer(Decoder(tiny_shape()), Optimisation())
    return Checkpoints(tmp_path / "checkpoints", {SHARED: base}), trainer


def move(trainer: Trainer) -> None:
    """One step of the optimiser, so that it has a state."""
    for parameter in trainer.parameters:
        parameter.grad = torch.ones_like(parameter)
    trainer.optimiser.step()
    trainer.steps += 1


def test_what_is_restored_is_what_was_kept(kept):
    checkpoints, trainer = kept
    move(trainer)
    checkpoints.keep({SHARED: trainer}, TrainingState(version=1, groups=3))
    other = Trainer(Decoder(tiny_shape()), Optimisation())
    standing = checkpoints.newest()
    assert standing == TrainingState(version=1, groups=3)
    checkpoints.restore(other, standing.version)
    assert other.steps == 1
    for mine, theirs in zip(trainer.decoder.state_dict().values(), other.decoder.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)
    assert str(other.optimiser.state_dict()) == str(trainer.optimiser.state_dict())


def test_the_newest_and_the_best_stay(kept):
    checkpoints, trainer = kept
    for version in range(6):
        checkpoints.keep({SHARED: trainer}, TrainingState(version=version, groups=0, best={SHARED: 1}))
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["000001", "000004", "000005"]
    checkpoints.mark(TrainingState(version=5, groups=0, best={SHARED: 5}))
    assert checkpoints.newest() == TrainingState(version=5, groups=0, best={SHARED: 5})


def test_policies_of_a_step_are_kept_together_and_restored_one_by_one(tmp_path):
    base = write_tiny(tmp_path / "base")
    checkpoints = Checkpoints(tmp_path / "checkpoints", dict.fromkeys((SHARED, "buyer", "seller"), base))
    trainers = {name: Trainer(Decoder(tiny_shape()), Optimisation()) for name in (SHARED, "buyer", "seller")}
    for name, steps in ((SHARED, 1), ("buyer", 2), ("seller", 3)):
        for _ in range(steps):
            move(trainers[name])
    place = checkpoints.keep(trainers, TrainingState(version=4, groups=3))
    assert sorted(path.name for path in place.iterdir()) == ["loop.json", "model", "policies", "trainer.pt"]
    assert load_folder(place / "policies" / "buyer" / "model").shape == tiny_shape()
    for name, steps in ((SHARED, 1), ("buyer", 2), ("seller", 3)):
        other = Trainer(Decoder(tiny_shape()), Optimisation())
        checkpoints.restore(other, 4, name)
        assert other.steps == steps
        assert same_weights(other, trainers[name])
        assert str(other.optimiser.state_dict()) == str(trainers[name].optimiser.state_dict())
    assert not same_weights(trainers["buyer"], trainers["seller"])


def same_weights(one: Trainer, other: Trainer) -> bool:
    pairs = zip(one.decoder.state_dict().values(), other.decoder.state_dict().values(), strict=True)
    return all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_the_best_version_of_every_policy_stays(tmp_path):
    base = write_tiny(tmp_path / "base")
    checkpoints = Checkpoints(tmp_path / "checkpoints", {"buyer": base, "seller": base})
    trainers = {name: Trainer(Decoder(tiny_shape()), Optimisation()) for name in ("buyer", "seller")}
    standing = TrainingState(version=0, groups=0).with_best("buyer", 1).with_best("seller", 2)
    assert standing.best == {"buyer": 1, "seller": 2}
    for version in range(7):
        checkpoints.keep(trainers, msgspec.structs.replace(standing, version=version))
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["000001", "000002", "000005", "000006"]
    assert checkpoints.newest() == msgspec.structs.replace(standing, version=6)


@pytest.fixture
def adapters(tmp_path):
    base = write_tiny(tmp_path / "base")
    return Checkpoints(tmp_path / "checkpoints", {SHARED: base}), Trainer(
        add_adapters(load_folder(base), 2), Optimisation(learning_rate=0.1)
    )


def test_adapters_go_on_and_go_back_and_the_base_is_not_written_again(adapters):
    checkpoints, trainer = adapters
    learned = []
    for version in (1, 2):
        move(trainer)
        checkpoints.keep({SHARED: trainer}, TrainingState(version=version, groups=version))
        learned.append({name: tensor.clone() for name, tensor in adapter_weights(trainer.decoder).items()})
    assert sorted(path.name for path in checkpoints.place(2).iterdir()) == ["adapter", "loop.json", "trainer.pt"]
    other = Trainer(add_adapters(load_folder(checkpoints._bases[SHARED]), 2, seed=9), Optimisation())
    checkpoints.restore(other, checkpoints.newest().version)
    assert str(other.optimiser.state_dict()["state"]) == str(trainer.optimiser.state_dict()["state"])
    assert all(torch.equal(tensor, learned[1][name]) for name, tensor in adapter_weights(other.decoder).items())
    checkpoints.put(other.decoder, 1)
    assert all(torch.equal(tensor, learned[0][name]) for name, tensor in adapter_weights(other.decoder).items())


def test_the_sum_is_exported_beside_the_adapters(adapters):
    checkpoints, trainer = adapters
    move(trainer)
    place = checkpoints.keep({SHARED: trainer}, TrainingState(version=1, groups=1))
    checkpoints.export(trainer.decoder, 1)
    whole = weights_of(load_folder(place / "model"))
    assert all(torch.equal(tensor, whole[name]) for name, tensor in weights_of(trainer.decoder).items())
    assert (place / "model" / "tokenizer.json").is_file()
    assert (place / "adapter" / "adapter_config.json").is_file()


def test_a_version_that_is_written_again_still_has_the_merged_weights_of_those_that_are_best(tmp_path):
    """As when one policy goes back at the version where another is best."""
    base = write_tiny(tmp_path / "base")
    checkpoints = Checkpoints(tmp_path / "checkpoints", {"buyer": base, "seller": base})
    trainers = {
        name: Trainer(add_adapters(load_folder(base), 2), Optimisation(learning_rate=0.1)) for name in ("buyer", "seller")
    }
    standing = TrainingState(version=0, groups=0)
    checkpoints.keep(trainers, standing)
    for trainer in trainers.values():
        move(trainer)
    standing = msgspec.structs.replace(standing, version=1).with_best("buyer", 0).with_best("seller", 1)
    checkpoints.keep(trainers, standing)
    checkpoints.restore(trainers["buyer"], 0, "buyer")
    place = checkpoints.keep(trainers, standing) / "policies"
    assert sorted(path.name for path in (place / "buyer").iterdir()) == ["adapter", "trainer.pt"]
    whole = weights_of(load_folder(place / "seller" / "model"))
    assert all(torch.equal(tensor, whole[name]) for name, tensor in weights_of(trainers["seller"].decoder).items())


@pytest.mark.parametrize("again", [False, True], ids=["a new version", "the same version again"])
def test_a_crash_at_any_point_leaves_a_whole_checkpoint(kept, monkeypatch, again):
    checkpoints, trainer = kept
    checkpoints.keep({SHARED: trainer}, TrainingState(version=1, groups=1))
    checkpoints.keep({SHARED: trainer}, TrainingState(version=2, groups=2))
    point = 0
    while True:
        point += 1
        with monkeypatch.context() as patched:
            crash_at(point, patched)
            try:
                checkpoints.keep({SHARED: trainer}, TrainingState(version=2 if again else 3, groups=9))
            except Crash:
                pass
            else:
                break
        standing = checkpoints.newest()
        assert standing is not None
        assert standing.version >= 1
        checkpoints.restore(trainer, standing.version)
        for version in (1, 2):  # as they were
            checkpoints.keep({SHARED: trainer}, TrainingState(version=version, groups=version))
        shutil.rmtree(checkpoints.place(3), ignore_errors=True)
    assert point > 5
    assert checkpoints.newest() == TrainingState(version=2 if again else 3, groups=9)


def crash_at(point: int, patched: pytest.MonkeyPatch) -> None:
    """Raise at the n-th thing that is done to the disk."""
    count = 0

    def counted(real):
        def call(*args, **kwargs):
            nonlocal count
            count += 1
            if count == point:
                raise Crash
            return real(*args, **kwargs)

        return call

    for owner, name in ((Path, "mkdir"), (Path, "rename"), (Path, "write_bytes"), (shutil, "rmtree"), (shutil, "copy"),
                        (torch, "save"), (os, "fsync")):  # fmt: skip
        patched.setattr(owner, name, counted(getattr(owner, name)))


def test_writing_takes_a_tenth_of_the_time_at_most(kept, monkeypatch):
    checkpoints, trainer = kept
    now = iter([100.0, 102.0, 119.9, 120.0])
    monkeypatch.setattr(sys.modules[Checkpoints.__module__], "time", SimpleNamespace(monotonic=lambda: next(now)))
    checkpoints.keep({SHARED: trainer}, TrainingState(version=1, groups=1))  # took 2 seconds
    assert not checkpoints.due
    assert checkpoints.due


def test_a_checkpoint_of_another_version_is_refused(kept):
    checkpoints, trainer = kept
    place = checkpoints.keep({SHARED: trainer}, TrainingState(version=1, groups=1))
    (place / "loop.json").write_text('{"format": 1, "version": 1, "groups": 1, "best": 1}')
    with pytest.raises(ConfigError, match=r"loop.json` cannot be read: .*`object`"):
        checkpoints.newest()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_named_with_the_fix(kept, error):
    checkpoints, trainer = kept
    with pytest.raises(StoreError, match=r"no space is left on the disk for checkpoint `.*000001`\. Free some"):
        checkpoints.keep({SHARED: failing(trainer, error)}, TrainingState(version=1, groups=1))


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "Permission denied"), RuntimeError("out of memory")])
def test_another_error_is_not_taken_for_a_full_disk(kept, error):
    checkpoints, trainer = kept
    with pytest.raises(type(error), match=str(error.args[-1])):
        checkpoints.keep({SHARED: failing(trainer, error)}, TrainingState(version=1, groups=1))


def failing(trainer: Trainer, error: Exception) -> SimpleNamespace:
    """A learner whose state cannot be written."""

    def state() -> None:
        raise error

    return SimpleNamespace(whole=trainer.whole, state=state)


NEW_USER, NEW_MOUNTS, PRIVATE, RECURSIVE = 0x10000000, 0x00020000, 0x40000, 0x4000


def own_disk(place: Path, size_bytes: int) -> None:
    """A small disk that only this process sees."""
    user, group, libc = os.getuid(), os.getgid(), ctypes.CDLL(None, use_errno=True)

    def require(code: int) -> None:
        assert code == 0, os.strerror(ctypes.get_errno())

    require(libc.unshare(NEW_MOUNTS | (NEW_USER if user else 0)))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    require(libc.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None))
    require(libc.mount(b"tmpfs", bytes(place), b"tmpfs", 0, f"size={size_bytes}".encode()))


@pytest.mark.parametrize("left", [0, 60_000, 400_000])  # fails in the first file, in the weights, in the optimiser's state
def test_on_a_disk_that_fills_up_the_checkpoint_before_stays(kept, tmp_path, left):
    place, (_, trainer) = tmp_path / "disk", kept
    place.mkdir()
    move(trainer)

    def fill_up() -> str:
        own_disk(place, 8_000_000)
        checkpoints = Checkpoints(place / "checkpoints", {SHARED: tmp_path / "base"})
        checkpoints.keep({SHARED: trainer}, TrainingState(version=1, groups=1))
        free = os.statvfs(place)
        (place / "other").write_bytes(bytes(free.f_bavail * free.f_bsize - left))
        with pytest.raises(StoreError, match=r"no space is left on the disk for checkpoint `.*000002`"):
            checkpoints.keep({SHARED: trainer}, TrainingState(version=2, groups=2))
        return f"{checkpoints.newest().version} {sorted(path.name for path in checkpoints.folder.iterdir())}"

    assert forked(fill_up) == "1 ['000001']"
    assert not list(place.iterdir()), "the disk was that of the fork"
