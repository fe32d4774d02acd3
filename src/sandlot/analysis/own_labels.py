"""Labels of a team's own, beside the built-in ones: a file `labels.toml` in the folder of runs, with a version.

    name = "support-desk"
    version = 2

    [[labels]]
    name = "rude"
    what = "correct, but the tone would lose a customer"

    [[labels]]
    name = "two_readings"
    what = "the ticket can be read in two ways"
    counts_as = "spec_ambiguous"

Raise `version` when a rule changes. Every stored label has the version and the rule as they were, so that old labels keep their
meaning whatever becomes of the file. A label that `retired = true` marks can be read, and no longer given.
"""

import re
import tomllib
from collections import Counter
from pathlib import Path

import msgspec

from sandlot.analysis.taxonomy import LABELS
from sandlot.core.errors import ConfigError

FILE = "labels.toml"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MAX_WHAT = 300
_EVALUATIONS = "evaluations"
"""The folder of a training's evaluations, which use the labels of the folder that the training is in."""


class OwnLabel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One label of a team."""

    name: str
    what: str
    """The rule in words."""
    counts_as: str | None = None
    """The built-in label that it stands for, where only those are known: `sandlot audit --reviewed`."""
    retired: bool = False
    """True if it is kept for old labels only."""


class OwnLabels(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The labels of a team: one version of its list."""

    name: str
    version: int
    labels: tuple[OwnLabel, ...] = ()


class OwnMeaning(msgspec.Struct, frozen=True, kw_only=True):
    """What a label of a team's own meant when it was given; stored with it."""

    team: str
    """The name of the team's list."""
    version: int
    what: str
    counts_as: str | None = None


class LabelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A label that can be given: a built-in one, or one of the team's own."""

    name: str
    what: str
    own: OwnMeaning | None = None


def own_labels_of(run: Path) -> OwnLabels | None:
    """The team's labels for a run: the file in the folder of runs; None if there is none. `ConfigError` if it is wrong."""
    folder = run.resolve().parent
    path = (folder.parents[1] if folder.name == _EVALUATIONS else folder) / FILE
    try:
        found = msgspec.convert(tomllib.loads(path.read_text()), OwnLabels)
    except FileNotFoundError:
        return None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: {error}") from error
    problem = _problem_of(found)
    if problem:
        raise ConfigError(f"{path}: {problem}")
    return found


def label_choices(run: Path) -> tuple[LabelChoice, ...]:
    """Every label that can be given to a rollout of this run: the built-in ones, then the team's own."""
    own = own_labels_of(run)
    built_in = tuple(LabelChoice(name=label.name, what=label.what) for label in LABELS)
    if own is None:
        return built_in
    return built_in + tuple(
        LabelChoice(
            name=label.name,
            what=label.what,
            own=OwnMeaning(team=own.name, version=own.version, what=label.what, counts_as=label.counts_as),
        )
        for label in own.labels
        if not label.retired
    )


def choose_label(run: Path, name: str) -> LabelChoice:
    """The label with this name; `ConfigError` with the list if there is none."""
    choices = label_choices(run)
    for choice in choices:
        if choice.name == name:
            return choice
    raise ConfigError(f"no label `{name[:60]}`; there are: {', '.join(choice.name for choice in choices)}")


def _problem_of(own: OwnLabels) -> str | None:
    """The first thing that is wrong with a list of labels."""
    built_in = {label.name for label in LABELS}
    if not own.name.strip() or own.version < 1:
        return f"name is `{own.name}`, version is {own.version}; give a name, and a version from 1"
    for name, count in Counter(label.name for label in own.labels).items():
        if count > 1 or name in built_in or not _NAME.fullmatch(name):
            reason = "is there twice" if count > 1 else "is a built-in label" if name in built_in else "is no name for a label"
            return f"label `{name}` {reason}; use another name of lower-case letters, digits and `_`"
    for label in own.labels:
        if not label.what.strip() or len(label.what) > _MAX_WHAT:
            return f"label `{label.name}`: write its rule in `what`, at most {_MAX_WHAT} characters"
        if label.counts_as is not None and label.counts_as not in built_in:
            return f"label `{label.name}` counts as `{label.counts_as}`; name a built-in one: {', '.join(sorted(built_in))}"
    return None
