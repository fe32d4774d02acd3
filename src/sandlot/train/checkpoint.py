"""Checkpoints: the weights as an ordinary model folder, with what the trainer needs to continue.

A checkpoint is written to a draft folder and then moved into place, so a crash leaves the previous one intact. `loop.json` in it
says where the loop was. The newest few are kept, and the best by held-out score. With LoRA, `adapter` holds the adapters in
PEFT's format, and the best version also has `model`, the merged weights, for tools without adapters.

Where several policies learn, one checkpoint has all of them, each in a folder of its own below `policies`: they are always of the
same step. The best version of each is kept.
"""

import errno
import shutil
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import torch
from safetensors import SafetensorError

from sandlot.core.disk import DRAFT, replace_folder, write_file
from sandlot.core.errors import ConfigError, StoreError
from sandlot.model.nn.adapter import adapted_linears
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder, save_folder
from sandlot.model.nn.lora import put_adapter, save_adapter
from sandlot.model.nn.stored import Origin
from sandlot.run.trained import TrainedIn, read_trained
from sandlot.train.leader import Learner
from sandlot.train.own_policy import POLICIES, SHARED, policy_folder

_KEPT = 2
_SHARE = 0.1
"""The share of a training's time that writing checkpoints may take. After a crash, steps since the last one are computed again
from the rollouts, which are all stored."""
_FULL = {errno.ENOSPC, errno.EDQUOT}
MODEL, ADAPTER = "model", "adapter"


class TrainingState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a loop was when its weights were stored."""

    format: int = 1
    version: int
    """Number of updates: the version of these weights."""
    groups: int
    """Groups learned from."""
    best: dict[str, int] = {}
    """The version with the best held-out score so far, by policy; the shared model has an empty name."""

    def with_best(self, policy: str, version: int) -> "TrainingState":
        """The same, with another best version of a policy."""
        return msgspec.structs.replace(self, best={**self.best, policy: version})


class Checkpoints:
    """The checkpoints of one training run."""

    def __init__(self, folder: Path, bases: Mapping[str, Path], origin: Callable[[str, int], TrainedIn] | None = None) -> None:
        self.folder = folder
        self._bases = bases
        """The folder of the model that each policy began with: its tokenizer is copied with the weights."""
        self._origin = origin
        """Returns the record of the setting that a version of a policy was trained in."""
        self._due_at = 0.0
        self._keeping = threading.Lock()
        """A stop may abandon the thread that writes one, and the last one is written meanwhile."""

    @property
    def due(self) -> bool:
        """True if writing one more takes no more than its share of the time."""
        return time.monotonic() >= self._due_at

    def place(self, version: int) -> Path:
        """The folder of a version."""
        return self.folder / f"{version:06d}"

    def policy_place(self, version: int, policy: str) -> Path:
        """The folder of one policy's weights in a version."""
        return policy_folder(self.place(version), policy)

    def newest(self) -> TrainingState | None:
        """The state of the newest complete checkpoint; `ConfigError` if another version of Sandlot wrote it."""
        files = sorted(self.folder.glob("[0-9]*/loop.json"))
        try:
            return msgspec.json.decode(files[-1].read_bytes(), type=TrainingState) if files else None
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"`{files[-1]}` cannot be read: {error}; continue with the version of Sandlot that wrote it, or train in another "
                "folder: `--run`"
            ) from error

    def keep(self, learners: Mapping[str, Learner], standing: TrainingState) -> Path:
        """Write a checkpoint of all policies, and remove older ones except the best of each."""
        with self._keeping:
            started = time.monotonic()
            place = self._write_all(learners, standing)
            self._drop_old(standing)
            ended = time.monotonic()
        self._due_at = ended + (ended - started) * (1 / _SHARE - 1)
        return place

    def _write_all(self, learners: Mapping[str, Learner], standing: TrainingState) -> Path:
        place = self.place(standing.version)
        for stale in self.folder.glob(f".*{DRAFT}"):  # a crash left it
            shutil.rmtree(stale, ignore_errors=True)
        with _writing(place), replace_folder(place, (MODEL, ADAPTER, POLICIES, "trainer.pt", "loop.json")) as draft:
            for policy, learner in learners.items():
                self._write(policy_folder(draft, policy), policy, learner, standing)
            (draft / "loop.json").write_bytes(msgspec.json.encode(standing))
        return place

    def _write(self, folder: Path, policy: str, learner: Learner, standing: TrainingState) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        decoder, base, version = learner.whole(), self._bases[policy], standing.version
        origin = self._origin_of(version, policy)
        if _has_adapters(decoder):
            save_adapter(decoder, folder / ADAPTER, base=str(base), origin=origin)
        # A version is written again when another policy goes back at it: the best one is then still merged.
        if not _has_adapters(decoder) or standing.best.get(policy) == version:
            save_folder(decoder, folder / MODEL, like=base, origin=origin)
        with (folder / "trainer.pt").open("wb", buffering=0) as file:  # torch's own files do not say that the disk is full
            torch.save(learner.state(), file)

    def mark(self, standing: TrainingState) -> None:
        """Replace the state of a stored checkpoint; its weights stay the same."""
        place = self.place(standing.version)
        with _writing(place):
            write_file(place / "loop.json", msgspec.json.encode(standing))

    def _drop_old(self, standing: TrainingState) -> None:
        found = sorted(path for path in self.folder.glob("[0-9]*") if path.is_dir())
        best = {self.place(version) for version in standing.best.values()}
        for path in found[:-_KEPT]:
            if path not in best:
                shutil.rmtree(path, ignore_errors=True)

    def export(self, decoder: Decoder, version: int, policy: str = SHARED) -> None:
        """Store the merged weights of a version beside its adapters; without adapters they are stored already."""
        if _has_adapters(decoder):
            base, place = self._bases[policy], self.policy_place(version, policy)
            with _writing(place):
                save_folder(decoder, place / MODEL, like=base, origin=self._origin_of(version, policy))

    def _origin_of(self, version: int, policy: str) -> Origin | None:
        """The setting that a version of a policy was trained in; untrained weights keep the record of their own folder."""
        if self._origin is None:
            return None
        origin = self._origin(policy, version) if version else read_trained(self._bases[policy])
        return Origin(origin.setting_fingerprint, origin.encoded()) if origin else None

    def put(self, decoder: Decoder, version: int, policy: str = SHARED) -> None:
        """Overwrite a decoder's weights, or its adapters, with those of one version."""
        folder = self.policy_place(version, policy)
        if _has_adapters(decoder):
            put_adapter(decoder, folder / ADAPTER)
        else:
            decoder.load_state_dict(load_folder(folder / MODEL).state_dict())

    def restore(self, learner: Learner, version: int, policy: str = SHARED) -> None:
        """Restore the weights and the trainer's state of one policy."""
        learner.overwrite(lambda decoder: self.put(decoder, version, policy))
        file = self.policy_place(version, policy) / "trainer.pt"
        kept: Any = cast("Any", torch).load(file, weights_only=True, map_location="cpu")
        learner.restore(kept)


@contextmanager
def _writing(place: Path) -> Generator[None]:
    """Raise `StoreError` with the fix where the disk is full; torch and safetensors hide that in errors of their own."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if not _means_full(error):
            raise
        raise StoreError(
            f"no space is left on the disk for checkpoint `{place}`. Free some and run the same command again: it continues from "
            "the checkpoint before",
            kind="write",
        ) from error


def _means_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        if isinstance(error, SafetensorError) and any(f"(os error {number})" in str(error) for number in _FULL):
            return True
        error = error.__cause__ or error.__context__
    return False


def _has_adapters(decoder: Decoder) -> bool:
    return any(adapted_linears(decoder))
