"""Train a reward model on pairs: the trainer's own step with `BradleyTerry`, without an environment or rollouts.

Pairs of some tasks are held out: a task is never on both sides. Their agreement is measured before the first step, from time to
time, and after the last; nothing is chosen by it. The same call continues a training that was interrupted, and reaches the same
losses.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import torch

from sandlot.core.disk import replace_folder, write_file
from sandlot.core.errors import ConfigError
from sandlot.core.stats.intervals import Sums, clustered_share
from sandlot.core.types import derive_seed, digest
from sandlot.model.engine.weights import model_folder
from sandlot.model.nn.folder import load_folder, save_folder
from sandlot.model.nn.stored import write_tensors
from sandlot.model.render.open import open_renderer
from sandlot.train.algorithms.algorithms import Prefer
from sandlot.train.algorithms.preferences import BradleyTerry
from sandlot.train.checkpoint import Checkpoints, TrainingState
from sandlot.train.forest.module import DecoderWithCritic
from sandlot.train.own_policy import SHARED
from sandlot.train.pairs import PairBatches, RenderedPairs, load_pairs, require_same_pairs
from sandlot.train.reward_model import (
    FOLDER,
    HEAD,
    MODEL,
    RECORD,
    PairAgreement,
    RewardModelRecord,
    at_the_end,
    read_reward_model,
    score_rows,
)
from sandlot.train.rows import Group
from sandlot.train.trainer import Optimisation, Trainer

_PROGRESS, _RECIPE = "progress.jsonl", "reward_recipe.json"
_PACE = ("steps", "threads", "device")
"""Fields that may change when a training is continued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardRecipe:
    """All settings of the training of a reward model.

    ```python
    from sandlot.train import RewardRecipe

    recipe = RewardRecipe(pairs="pairs.jsonl", model="rookie", steps=40)
    ```
    """

    pairs: str | Path
    """The file of pairs, `.jsonl` or `.parquet`, as `sandlot export pairs RUN` writes it."""
    model: str = "rookie"
    """The model it begins as: `rookie`, `smollm2` or `hf:FOLDER`."""
    steps: int = 50
    """Updates of the weights."""
    batch: int = 16
    """Pairs per step."""
    heldout: float = 0.2
    """Share of the tasks whose pairs are never trained on."""
    every: int = 10
    """Steps between measurements, and between checkpoints."""
    optimisation: Optimisation = field(default_factory=Optimisation)
    """Learning rate and other settings of the optimiser."""
    seed: int = 0
    """Seed of the order of pairs, and of which tasks are held out."""
    threads: int | None = None
    """CPU threads; None leaves it to torch."""
    device: str = "cpu"
    """`cpu` or `cuda`."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"reward recipe: {name} is {getattr(self, name)}; give 1 or more")
        if not 0 < self.heldout < 1:
            raise ConfigError(f"reward recipe: heldout is {self.heldout}; give a share between 0 and 1")


class RankedStep(msgspec.Struct, frozen=True, kw_only=True, tag="step", tag_field="is"):
    """One step of the training of a reward model."""

    version: int
    """Version of the weights after the step."""
    loss: float
    norm: float
    """Norm of the gradient before it was clipped."""
    agreement: float
    """Share of the step's pairs that were ranked rightly before it."""
    seconds: float


RewardLine = RankedStep | PairAgreement


def train_reward_model(
    recipe: RewardRecipe, run: str | Path, *, sink: Callable[[RewardLine], None] = lambda _line: None
) -> RewardModelRecord:
    """Train a reward model, write it to the folder `run`, and return its record: its agreement with held-out pairs.

    The same call continues a training that was interrupted. With a changed recipe or changed pairs it is refused.

    - `recipe`: what to train.
    - `run`: the run directory; `RewardModel(run)` is then a reward.
    - `sink`: receives every step and every measurement.
    """
    path = Path(run)
    folder = model_folder(recipe.model)
    decoder = load_folder(folder, dtype=torch.float32, device=recipe.device)
    pairs = load_pairs(Path(recipe.pairs), open_renderer(folder), decoder.shape.context)
    train, heldout = _split(pairs, recipe)
    _require_same_recipe(recipe, pairs, path)
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    training = _RewardTraining(
        recipe,
        Trainer(decoder, recipe.optimisation, critic=True),
        train,
        heldout,
        Checkpoints(path / "checkpoints", {SHARED: folder}),
    )
    lines = training.learn(_Log(path / _PROGRESS, sink))
    return _write(training, pairs, lines, path, folder)


@dataclass(slots=True)
class _RewardTraining:
    """One training of a reward model, open."""

    recipe: RewardRecipe
    trainer: Trainer
    train: Sequence[Group]
    heldout: Sequence[Group]
    checkpoints: Checkpoints

    @property
    def network(self) -> DecoderWithCritic:
        """The decoder and its head."""
        return DecoderWithCritic(self.trainer.decoder, self.trainer.critic)

    def learn(self, log: "_Log") -> list[RewardLine]:
        """Train to the last step, from where the last checkpoint was; returns all lines."""
        recipe, trainer = self.recipe, self.trainer
        standing = self.checkpoints.newest() or TrainingState(version=0, groups=0)
        if standing.version:
            self.checkpoints.restore(trainer, standing.version)
        log.cut(standing.version)
        batches = PairBatches(self.train, recipe.seed, standing.groups)
        algorithm = Prefer(loss=BradleyTerry())
        if not any(isinstance(line, PairAgreement) for line in log.lines):
            log.add(self.measure(0))
        for version in range(standing.version + 1, recipe.steps + 1):
            update = trainer.update(algorithm(batches.next(recipe.batch)))
            log.add(
                RankedStep(
                    version=version,
                    loss=update.loss,
                    norm=update.norm,
                    agreement=update.figures["agreement"],
                    seconds=update.seconds,
                )
            )
            if version % recipe.every == 0 or version == recipe.steps:
                log.add(self.measure(version))
                self.checkpoints.keep({SHARED: trainer}, TrainingState(version=version, groups=batches.taken))
        return log.lines

    def scores(self, pairs: Sequence[Group]) -> list[float]:
        """Scores of the better and the worse row of each pair, in turn."""
        rows = [member.rows[-1] for pair in pairs for member in pair.members]
        return score_rows(self.network, rows, self.recipe.optimisation.tokens)

    def measure(self, version: int) -> PairAgreement:
        """PairAgreement with the held-out pairs."""
        found = self.scores(self.heldout)
        margins = [better - worse for better, worse in zip(found[::2], found[1::2], strict=True)]
        return agreement_of(version, [pair.task for pair in self.heldout], margins)


def agreement_of(version: int, tasks: Sequence[str], margins: Sequence[float]) -> PairAgreement:
    """The agreement of pairs by the score of the better answer minus that of the worse."""
    clusters: dict[str, Sums] = {}
    for task, margin in zip(tasks, margins, strict=True):
        before = clusters.get(task, Sums(0, 0.0))
        clusters[task] = Sums(before.count + 1, before.total + (0.5 if margin == 0 else float(margin > 0)))
    share = clustered_share(list(clusters.values()))
    return PairAgreement(
        version=version,
        share=math.nan if share.value is None else share.value,
        low=share.low,
        high=share.high,
        pairs=len(margins),
        tasks=len(clusters),
        margin=math.fsum(margins) / max(1, len(margins)),
        confidence=math.fsum(1 / (1 + math.exp(-abs(margin))) for margin in margins) / max(1, len(margins)),
    )


class _Log:
    """The lines of a training: in memory, on disk, and in the sink."""

    def __init__(self, file: Path, sink: Callable[[RewardLine], None]) -> None:
        self._file, self._sink = file, sink
        written = file.read_bytes().splitlines() if file.is_file() else []
        self.lines = [line for line in map(_decoded, written) if line is not None]

    def cut(self, version: int) -> None:
        """Forget what came after a version: a crash left it, and it is computed again."""
        self.lines = [line for line in self.lines if line.version <= version]
        write_file(self._file, b"".join(msgspec.json.encode(line) + b"\n" for line in self.lines))

    def add(self, line: RewardLine) -> None:
        """Append a line."""
        self.lines.append(line)
        with self._file.open("ab") as out:
            out.write(msgspec.json.encode(line) + b"\n")
        self._sink(line)


def _decoded(line: bytes) -> RewardLine | None:
    try:
        return msgspec.json.decode(line, type=RewardLine)
    except msgspec.DecodeError:
        return None  # a crash cut this line off


def _split(pairs: RenderedPairs, recipe: RewardRecipe) -> tuple[list[Group], list[Group]]:
    """Pairs to train on and held-out pairs, divided by task; only the last token of each row is computed."""
    if len(pairs.tools) > 1:
        raise ConfigError(
            f"`{pairs.used.file}` has pairs with {len(pairs.tools)} different sets of tools; a reward model reads every "
            "conversation with the same tools: give it the pairs of one environment"
        )
    tasks = sorted({group.task for group in pairs.groups}, key=lambda task: derive_seed("heldout", recipe.seed, task))
    away = set(tasks[: max(1, round(recipe.heldout * len(tasks)))])
    groups = [
        replace(group, members=tuple(replace(each, rows=tuple(map(at_the_end, each.rows))) for each in group.members))
        for group in pairs.groups
    ]
    train = [group for group in groups if group.task not in away]
    if not train:
        raise ConfigError(
            f"`{pairs.used.file}` has pairs of {len(tasks)} task, and {recipe.heldout:.0%} of the tasks are held out: none is "
            "left to train on; give pairs of more tasks"
        )
    return train, [group for group in groups if group.task in away]


def _require_same_recipe(recipe: RewardRecipe, pairs: RenderedPairs, path: Path) -> None:
    file = path / _RECIPE
    wanted: dict[str, Any] = msgspec.json.decode(msgspec.json.encode({**asdict(recipe), "pairs": str(recipe.pairs)}))
    if file.is_file():
        begun = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
        changed = [name for name, value in wanted.items() if name not in _PACE and begun.get(name) != value]
        if changed:
            raise ConfigError(f"`{path}` was begun with another {', '.join(changed)}; name a new folder")
    elif path.is_dir() and any(path.iterdir()):
        raise ConfigError(f"`{path}` is not the folder of a reward model, and not empty; name another folder")
    path.mkdir(parents=True, exist_ok=True)
    write_file(file, msgspec.json.format(msgspec.json.encode(wanted), indent=2) + b"\n")
    require_same_pairs(pairs.used, path)


def _write(
    training: _RewardTraining, pairs: RenderedPairs, lines: Sequence[RewardLine], path: Path, base: Path
) -> RewardModelRecord:
    """Write the finished model with its record, as a whole."""
    measured = [line for line in lines if isinstance(line, PairAgreement)]
    scores = training.scores(training.train)
    trainer = training.trainer
    assert trainer.critic is not None
    with replace_folder(path / FOLDER, (MODEL, HEAD, RECORD)) as draft:
        save_folder(trainer.decoder, draft / MODEL, like=base)
        write_tensors(draft / HEAD, trainer.critic.state_dict(), torch.float32)
        stored = (draft / MODEL / "model.safetensors").read_bytes() + (draft / HEAD).read_bytes()
        record = RewardModelRecord(
            model=training.recipe.model,
            pairs=pairs.used,
            trained=len(training.train),
            before=measured[0],
            after=measured[-1],
            length=_by_length(training.train, training.heldout),
            centre=math.fsum(scores) / len(scores),
            tools=pairs.tools[0],
            weights=digest(stored),
            seconds=math.fsum(line.seconds for line in lines if isinstance(line, RankedStep)),
        )
        (draft / RECORD).write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    return read_reward_model(path)


def _by_length(train: Sequence[Group], heldout: Sequence[Group]) -> PairAgreement:
    """Held-out pairs ranked by length: by the longer or by the shorter, whichever is right more often in training."""
    longer = [_longer(pair) for pair in train]
    sign = 1.0 if math.fsum(math.copysign(1.0, more) for more in longer if more) >= 0 else -1.0
    return agreement_of(0, [pair.task for pair in heldout], [sign * _longer(pair) for pair in heldout])


def _longer(pair: Group) -> float:
    better, worse = pair.members
    return float(len(better.rows[-1]) - len(worse.rows[-1]))
