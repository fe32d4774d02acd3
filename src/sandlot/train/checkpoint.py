"""Checkpoints: weights as a folder any tool reads, and what the trainer needs to go on, both or neither.

A checkpoint is written beside its place and moved there whole, so that a crash leaves the one before. `loop.json` inside says
where the loop stood. The newest few are kept, and the best by held-out score. Where adapters learn, `adapter` holds them as PEFT
reads them, and the best version has `model` beside it: the sum, for whoever knows no adapters.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import torch

from sandlot.model.nn.adapter import adapted_linears
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder, save_folder
from sandlot.model.nn.lora import put_adapter, save_adapter
from sandlot.model.nn.stored import Origin
from sandlot.run.trained import TrainedIn, read_trained
from sandlot.train.leader import Learner

_KEPT = 2
MODEL, ADAPTER = "model", "adapter"


class TrainingState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a loop stood when its weights were kept."""

    format: int = 1
    version: int
    """Updates done: the version of these weights."""
    groups: int
    """Groups learned from."""
    best: int | None = None
    """The version with the best held-out score so far."""
    best_score: float | None = None


def _sync_files(folder: Path) -> None:
    """Have every file of a folder on disk: what is moved into place must be whole even when the power goes."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


class Checkpoints:
    """The checkpoints of one training run."""

    def __init__(self, folder: Path, base: Path, origin: Callable[[int], TrainedIn] | None = None) -> None:
        self.folder = folder
        self._base = base
        """The model's own folder: its tokenizer goes along with its weights."""
        self._origin = origin
        """Says of a version in which setting it was trained."""

    def place(self, version: int) -> Path:
        """Where one version is."""
        return self.folder / f"{version:06d}"

    def newest(self) -> TrainingState | None:
        """The last one written whole."""
        found = sorted(path for path in self.folder.glob("[0-9]*") if (path / "loop.json").is_file())
        return msgspec.json.decode((found[-1] / "loop.json").read_bytes(), type=TrainingState) if found else None

    def keep(self, learner: Learner, standing: TrainingState) -> Path:
        """Write one; older ones go, but for the best."""
        decoder = learner.whole()
        place = self.place(standing.version)
        draft = self.folder / f".draft-{standing.version:06d}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        if _has_adapters(decoder):
            save_adapter(decoder, draft / ADAPTER, base=str(self._base), origin=self._origin_of(standing.version))
        else:
            save_folder(decoder, draft / MODEL, like=self._base, origin=self._origin_of(standing.version))
        torch.save(learner.state(), draft / "trainer.pt")
        (draft / "loop.json").write_bytes(msgspec.json.encode(standing))
        _sync_files(draft)
        self._put(draft, place)
        self._drop_old(standing)
        return place

    def _put(self, draft: Path, place: Path) -> None:
        """Move a draft to its place. Where one is there already, a crash between the two moves leaves the version before it."""
        old = self.folder / f".old-{place.name}"
        shutil.rmtree(old, ignore_errors=True)
        if place.exists():
            place.rename(old)
        draft.rename(place)
        shutil.rmtree(old, ignore_errors=True)

    def mark(self, standing: TrainingState) -> None:
        """Say something else of a checkpoint that is there; its weights stay as they are."""
        file = self.place(standing.version) / "loop.json"
        draft = file.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(standing))
        draft.replace(file)

    def _drop_old(self, standing: TrainingState) -> None:
        found = sorted(path for path in self.folder.glob("[0-9]*") if path.is_dir())
        for path in found[:-_KEPT]:
            if standing.best is None or path != self.place(standing.best):
                shutil.rmtree(path, ignore_errors=True)

    def export(self, decoder: Decoder, version: int) -> None:
        """Have one version's whole weights beside its adapters; without adapters they are there already."""
        if _has_adapters(decoder):
            save_folder(decoder, self.place(version) / MODEL, like=self._base, origin=self._origin_of(version))

    def _origin_of(self, version: int) -> Origin | None:
        """The setting of a version; weights that have not learned here keep what their own folder says."""
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
        """Put weights and trainer back to where they stood."""
        learner.overwrite(lambda decoder: self.put(decoder, standing.version))
        kept: Any = cast("Any", torch).load(self.place(standing.version) / "trainer.pt", weights_only=True)
        learner.restore(kept)


def _has_adapters(decoder: Decoder) -> bool:
    return any(adapted_linears(decoder))
