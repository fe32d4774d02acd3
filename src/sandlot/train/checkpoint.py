"""Checkpoints: the weights as an ordinary model folder, with what the trainer needs to continue.

A checkpoint is written to a draft folder and then moved into place, so a crash leaves the previous one intact. `loop.json` in it
says where the loop was. The newest few are kept, and the best by held-out score. With LoRA, `adapter` holds the adapters in
PEFT's format, and the best version also has `model`, the merged weights, for tools without adapters.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import torch

from sandlot.core.disk import DRAFT, replace_folder, write_file
from sandlot.model.nn.adapter import adapted_linears
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder, save_folder
from sandlot.model.nn.lora import put_adapter, save_adapter
from sandlot.model.nn.stored import Origin
from sandlot.run.trained import TrainedIn, read_trained
from sandlot.train.leader import Learner

_KEPT = 2
_SHARE = 0.1
"""The share of a training's time that writing checkpoints may take. After a crash, steps since the last one are computed again
from the rollouts, which are all stored."""
MODEL, ADAPTER = "model", "adapter"


class TrainingState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a loop was when its weights were stored."""

    format: int = 1
    version: int
    """Number of updates: the version of these weights."""
    groups: int
    """Groups learned from."""
    best: int | None = None
    """The version with the best held-out score so far."""
    best_score: float | None = None


class Checkpoints:
    """The checkpoints of one training run."""

    def __init__(self, folder: Path, base: Path, origin: Callable[[int], TrainedIn] | None = None) -> None:
        self.folder = folder
        self._base = base
        """The model's own folder: its tokenizer is copied with the weights."""
        self._origin = origin
        """Returns the record of the setting that a version was trained in."""
        self._due_at = 0.0

    @property
    def due(self) -> bool:
        """True if writing one more takes no more than its share of the time."""
        return time.monotonic() >= self._due_at

    def place(self, version: int) -> Path:
        """The folder of a version."""
        return self.folder / f"{version:06d}"

    def newest(self) -> TrainingState | None:
        """The state of the newest complete checkpoint."""
        found = sorted(path for path in self.folder.glob("[0-9]*") if (path / "loop.json").is_file())
        return msgspec.json.decode((found[-1] / "loop.json").read_bytes(), type=TrainingState) if found else None

    def keep(self, learner: Learner, standing: TrainingState) -> Path:
        """Write a checkpoint, and remove older ones except the best."""
        started = time.monotonic()
        decoder = learner.whole()
        place = self.place(standing.version)
        for stale in self.folder.glob(f".*{DRAFT}"):  # a crash left it
            shutil.rmtree(stale, ignore_errors=True)
        with replace_folder(place, (MODEL, ADAPTER, "trainer.pt", "loop.json")) as draft:
            if _has_adapters(decoder):
                save_adapter(decoder, draft / ADAPTER, base=str(self._base), origin=self._origin_of(standing.version))
            else:
                save_folder(decoder, draft / MODEL, like=self._base, origin=self._origin_of(standing.version))
            torch.save(learner.state(), draft / "trainer.pt")
            (draft / "loop.json").write_bytes(msgspec.json.encode(standing))
        self._drop_old(standing)
        ended = time.monotonic()
        self._due_at = ended + (ended - started) * (1 / _SHARE - 1)
        return place

    def mark(self, standing: TrainingState) -> None:
        """Replace the state of a stored checkpoint; its weights stay the same."""
        file = self.place(standing.version) / "loop.json"
        write_file(file, msgspec.json.encode(standing))

    def _drop_old(self, standing: TrainingState) -> None:
        found = sorted(path for path in self.folder.glob("[0-9]*") if path.is_dir())
        for path in found[:-_KEPT]:
            if standing.best is None or path != self.place(standing.best):
                shutil.rmtree(path, ignore_errors=True)

    def export(self, decoder: Decoder, version: int) -> None:
        """Store the merged weights of a version beside its adapters; without adapters they are stored already."""
        if _has_adapters(decoder):
            save_folder(decoder, self.place(version) / MODEL, like=self._base, origin=self._origin_of(version))

    def _origin_of(self, version: int) -> Origin | None:
        """The setting that a version was trained in; untrained weights keep the record of their own folder."""
        if self._origin is None:
            return None
        origin = self._origin(version) if version else read_trained(self._base)
        return Origin(origin.setting_fingerprint, origin.encoded()) if origin else None

    def put(self, decoder: Decoder, version: int) -> None:
        """Overwrite a decoder's weights, or its adapters, with those of one version."""
        if _has_adapters(decoder):
            put_adapter(decoder, self.place(version) / ADAPTER)
        else:
            decoder.load_state_dict(load_folder(self.place(version) / MODEL).state_dict())

    def restore(self, learner: Learner, standing: TrainingState) -> None:
        """Restore the weights and the trainer's state."""
        learner.overwrite(lambda decoder: self.put(decoder, standing.version))
        kept: Any = cast("Any", torch).load(self.place(standing.version) / "trainer.pt", weights_only=True, map_location="cpu")
        learner.restore(kept)


def _has_adapters(decoder: Decoder) -> bool:
    return any(adapted_linears(decoder))
