"""Updates of a tiny model in fp64, in as many processes as `torchrun` starts: what they come to is written down by the first.

    torchrun --standalone --nproc-per-node 2 tests/unit/train/parallel/shared_batches.py FOLDER

Alone, `work` does the same in the calling process: the twin that several are compared with.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.lora import add_adapters, merged_state
from sandlot.model.nn.shape import Shape
from sandlot.train.algorithms.algorithms import TokenLoss, TrainingRow
from sandlot.train.algorithms.losses import Clip, Entropy, Gspo, Kl, Value
from sandlot.train.algorithms.preferences import Dpo
from sandlot.train.parallel.ranks import ALONE, Ranks, open_ranks
from sandlot.train.rows import Row
from sandlot.train.trainer import Optimisation, Trainer

UPDATES = 2
"""The second needs all that the first leaves behind."""
VOCABULARY = 23
SHAPE = {"vocabulary": VOCABULARY, "hidden": 16, "layers": 2, "heads": 4, "kv_heads": 2, "head": 8, "mlp": 24, "context": 64}


@dataclass(frozen=True)
class Case:
    """A few updates."""

    groups: int = 3
    components: tuple = (Clip(0.2, 0.28),)
    optimisation: dict[str, Any] = field(default_factory=dict)
    critic: bool = False
    reference: bool = False
    lora: int | None = None
    family: str = "qwen3"
    untrained: int = 0
    """Groups in which nothing was sampled by whoever learns."""


CASES = {
    "many groups": Case(groups=5),
    "an even number of groups": Case(groups=2),
    "nothing for one of two": Case(groups=1),
    "nothing to learn at all": Case(groups=0),
    "cut into many forests": Case(optimisation={"tokens": 12}),
    "clipped hard": Case(optimisation={"max_norm": 1e-3}),
    "never clipped": Case(optimisation={"max_norm": 1e9}),
    "several steps from settled weights": Case(
        components=(Clip(), Kl("k3")), optimisation={"minibatches": 2, "epochs": 2}, reference=True
    ),
    "a critic in some groups": Case(components=(Clip(), Value(), Entropy()), critic=True),
    "only a critic": Case(components=(Value(),), critic=True),
    "pairs": Case(components=(Dpo(),), reference=True),
    "whole rows": Case(components=(Gspo(),)),
    "layers computed again": Case(optimisation={"recompute": "everything", "tokens": 40}),
    "adapters": Case(components=(Clip(), Kl("k2")), lora=2, reference=True),
    "adapters, layers computed again": Case(lora=2, optimisation={"recompute": "everything"}),
    "a tied head and biases": Case(family="qwen2"),
    "rows that teach nothing": Case(untrained=2),
}


def shape(family: str) -> Shape:
    return Shape(family=family, **SHAPE, qk_norm=family == "qwen3", qkv_bias=family == "qwen2", tied=family == "qwen2")


def decoder(family: str, seed: int) -> Decoder:
    torch.manual_seed(seed)
    model = Decoder(shape(family)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3) if parameter.dim() > 1 else parameter.uniform_(0.5, 1.5)
    return model


def group(seed: int, case: Case, *, learns: bool) -> list[TrainingRow]:
    """Rows that share a prompt; groups differ in size, and only every other one has all the components."""
    rng = np.random.default_rng(seed)
    prompt = rng.integers(0, VOCABULARY, 5)
    components = case.components if seed % 2 == 0 or len(case.components) == 1 else case.components[:1]
    made = []
    for number in range(2 * (1 + seed % 3)):
        ids = np.concatenate((prompt, rng.integers(0, VOCABULARY, rng.integers(3, 9)))).astype(np.int32)
        trained = (np.arange(len(ids)) >= 5) & learns
        row = Row(
            rollout=(f"t{seed}", number),
            ids=ids,
            trained=trained,
            logprobs=rng.normal(-2, 0.3, len(ids)).astype(np.float32),
            versions=np.zeros(len(ids), np.int32),
            turns=np.where(trained, 0, -1).astype(np.int32),
        )
        paired = isinstance(components[0], Dpo)
        streams = tuple(
            TokenLoss(
                component,
                np.full(len(ids), 1 - 2 * (number % 2), np.float32) if paired else rng.normal(0, 1, len(ids)).astype(np.float32),
                (rng.uniform(0.1, 0.2, len(ids)) * trained).astype(np.float32),
            )
            for component in components
        )
        made.append(TrainingRow(row, streams, number ^ 1 if paired else None))
    return made


def batches(case: Case) -> list[list[list[TrainingRow]]]:
    silent = [group(90 + number, case, learns=False) for number in range(case.untrained)]
    return [
        [*silent, *(group(10 * step + number, case, learns=True) for number in range(case.groups))] for step in range(UPDATES)
    ]


def trainer_of(case: Case, ranks: Ranks = ALONE) -> Trainer:
    model = decoder(case.family, 1)
    if case.lora:
        add_adapters(model, case.lora, seed=3).double()
    return Trainer(
        model,
        Optimisation(learning_rate=1e-2, weight_decay=0.1, **{"tokens": 60, **case.optimisation}),
        critic=case.critic,
        reference=decoder(case.family, 2) if case.reference else None,
        ranks=ranks,
    )


def outcome(trainer: Trainer, updates: list) -> dict[str, Any]:
    state, whole = trainer.state(), trainer.whole()
    if not trainer.ranks.leads:
        return {}
    return {
        "updates": [
            {"loss": each.loss, "norm": each.norm, "tokens": each.tokens, "flat": each.flat, **each.figures} for each in updates
        ],
        "weights": {name: tensor.clone() for name, tensor in merged_state(whole).items()},
        "state": state,
    }


def work(case: Case, ranks: Ranks = ALONE) -> dict[str, Any]:
    """All updates."""
    trainer = trainer_of(case, ranks)
    return outcome(trainer, [trainer.update(batch) for batch in batches(case)])


def continued(case: Case, kept: dict[str, Any] | None, ranks: Ranks = ALONE) -> dict[str, Any]:
    """The last update from what the others left: by whoever wrote it down; rank 0 has it."""
    trainer = trainer_of(case, ranks)

    def put(model: Decoder) -> None:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.requires_grad:
                    parameter.copy_(kept["weights"][name])

    trainer.overwrite(put if kept else None)
    trainer.restore(kept["state"] if kept else None)
    return outcome(trainer, [trainer.update(batches(case)[-1])])


def begun(case: Case, ranks: Ranks = ALONE) -> dict[str, Any]:
    """All updates but the last, and all that is needed to go on."""
    trainer = trainer_of(case, ranks)
    for batch in batches(case)[:-1]:
        trainer.update(batch)
    weights = {name: tensor.detach().clone() for name, tensor in trainer.whole().named_parameters()}
    return {"weights": weights, "state": trainer.state()}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    with open_ranks("cpu") as ranks:
        assert ranks.count > 1
        found = {name: work(case, ranks) for name, case in CASES.items()}
        for name in ("a critic in some groups", "adapters"):
            kept = torch.load(folder / f"{name}.pt") if ranks.leads else None
            found[f"{name}, continued"] = continued(CASES[name], kept, ranks)
            found[f"{name}, begun"] = begun(CASES[name], ranks)
        if ranks.leads:
            torch.save(found, folder / "found.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
