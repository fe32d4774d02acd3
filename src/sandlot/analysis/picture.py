"""One picture of a run or a training, live or ended: the numbers that its page shows, for a terminal and for scripts."""

from pathlib import Path

import msgspec

from sandlot.analysis.alarm import Alarm
from sandlot.analysis.training_state import Incident, StoredTraining, open_training
from sandlot.observe.training_records import Collapse, Learned, Measured
from sandlot.run.follow import Follower, RunState
from sandlot.run.results import Run

_LAST = 8
"""Steps, evaluations and incidents of a training that are listed."""


class TrainingPicture(msgspec.Struct, frozen=True, kw_only=True):
    """How a training stands."""

    step: int
    """Steps that are done."""
    steps: int
    """Steps of the recipe."""
    doing: str
    """What it does now; empty if it has ended."""
    last_steps: tuple[Learned, ...]
    """The newest last."""
    heldout: tuple[Measured, ...]
    """The last evaluations on held-out tasks, the newest last."""
    incidents: tuple[Incident, ...]
    """The last alarms, rollbacks and warnings."""
    num_alarms: int
    """Alarms about the reward and verdicts of a collapse so far."""


class RunPicture(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands now."""

    run: str
    environment: str
    model: str
    state: str
    """`running`, `paused`, or how it ended: `complete`, `stopped`, `incomplete`."""
    stopped: str = ""
    """Why its last sitting ended early."""
    progress: RunState
    training: TrainingPicture | None = None

    @property
    def live(self) -> bool:
        """True if it goes on."""
        return self.progress.live

    @property
    def exit_code(self) -> int:
        """0 complete; 1 stopped as bad, or rollouts failed (of a training: an alarm); 3 incomplete or still going on."""
        if self.state not in {"complete", "stopped"}:
            return 3
        bad = self.training.num_alarms if self.training is not None else self.progress.failed
        return 1 if self.state == "stopped" or bad else 0


class RunViewer:
    """Takes pictures of one run; each reads only what is new.

    ```python
    import sandlot
    from sandlot.analysis.picture import RunViewer

    run = sandlot.run("arithmetic", "scripted:mixed:0.5", rollouts=16)
    picture = RunViewer(run.path).look()
    print(picture.state, picture.progress.rollouts, picture.progress.score)
    ```
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._follower = Follower(path, fresh_s=0.0)

    def look(self) -> RunPicture:
        """How it stands now."""
        state, run = self._follower.look(), Run(self._path)
        going = "paused" if state.now.paused else "running"
        sittings = run.sittings
        return RunPicture(
            run=self._path.name,
            environment=run.manifest.environment,
            model=run.manifest.config.model.shown,
            state=going if state.live else run.verdict,
            stopped=(sittings[-1].stopped or "") if sittings and not state.live and run.verdict != "complete" else "",
            progress=state,
            training=_training(open_training(self._path), state) if run.is_training else None,
        )


def _training(training: StoredTraining, state: RunState) -> TrainingPicture:
    return TrainingPicture(
        step=training.version,
        steps=training.recipe.steps,
        doing=training.doing(state) if state.live else "",
        last_steps=tuple(training.steps[-_LAST:]),
        heldout=tuple(training.evaluations[-_LAST:]),
        incidents=tuple(training.incidents(live=state.live))[-_LAST:],
        num_alarms=sum(isinstance(line, Alarm | Collapse) for line in training.lines),
    )
