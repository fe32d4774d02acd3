"""The rules of `--watch`: a TOML file with `[[rule]]` tables, each with what it is `on` and its limits."""

import os
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.types import Side

_Count = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
_Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]
_Seconds = Annotated[float, msgspec.Meta(gt=0)]


class WatchRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="on"):
    """A condition that a person wants to hear of."""

    name: str = ""
    """What alerts are called; without one, what the rule is on."""

    @property
    def title(self) -> str:
        """The name that alerts carry."""
        return self.name or str(self.__struct_config__.tag)


class FailureRateRule(WatchRule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="on", tag="failure_rate"):
    """Too many of the last rollouts failed."""

    above: _Share = 0.1
    """The share that may fail."""
    window: _Count = 200
    """Rollouts that are looked at: the last ones."""
    at_least: _Count = 20
    """Rollouts that must have ended before the rule speaks."""
    sides: tuple[Side, ...] = ()
    """Failures that count; empty: those of every side."""


class StallRule(WatchRule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="on", tag="stall"):
    """Nothing has finished for a while: no rollout, no step of a training."""

    after_s: _Seconds = 600.0


class RewardSurgeRule(WatchRule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="on", tag="reward_surge"):
    """The reward rises and the outcome does not: of a training its own alarm, of a run the check that `sandlot health` makes."""

    window: _Count = 4000
    """Rollouts that are looked at: the last ones."""


class DriftRule(WatchRule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="on", tag="drift"):
    """Turns, tool calls or tokens have changed, on the same tasks: since the start of the window, or against another run."""

    window: _Count = 2000
    """Rollouts that are looked at: the last ones."""
    against: str | None = None
    """A run directory to compare with."""


class TrainingAlarmRule(WatchRule, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="on", tag="training_alarm"):
    """A training raised an alarm of its own."""

    kinds: tuple[str, ...] = ("reward_hacking", "collapse", "idle")


AnyWatchRule = FailureRateRule | StallRule | RewardSurgeRule | DriftRule | TrainingAlarmRule


class WatchRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rules file."""

    rule: tuple[AnyWatchRule, ...]
    webhook: str | None = None
    """Where each alert is posted as JSON: an http or https address."""
    webhook_env: str | None = None
    """The environment variable that holds the address, where it is a secret."""

    @property
    def address(self) -> str | None:
        """Where alerts are posted; None for nowhere."""
        if self.webhook_env is None:
            return self.webhook
        found = os.environ.get(self.webhook_env)
        if not found:
            raise ConfigError(f"webhook_env: the environment variable `{self.webhook_env}` is not set; set it to the address")
        return found

    def require_sense(self) -> None:
        """Refuse what no single field shows."""
        if not self.rule:
            raise ConfigError('there is no rule; write a table such as `[[rule]]` with `on = "failure_rate"`')
        titles = [each.title for each in self.rule]
        twice = next((title for title in titles if titles.count(title) > 1), None)
        if twice is not None:
            raise ConfigError(f"two rules are called `{twice}`; give each its own `name`")
        if self.webhook is not None and self.webhook_env is not None:
            raise ConfigError("both `webhook` and `webhook_env` are given; leave one out")
        if self.address is not None:
            require_address(self.address)


def require_address(url: str) -> None:
    """Refuse what is no address of a webhook. The address may be a secret: only its kind is said."""
    try:
        place = urlsplit(url)
        usable = place.scheme in {"http", "https"} and bool(place.hostname) and place.port != 0 and url.isascii()
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise ConfigError("webhook: not an http or https address, such as `http://127.0.0.1:9000/alerts`")


def read_rules(file: Path) -> WatchRules:
    """The rules of a file; `ConfigError` says where it is wrong."""
    try:
        rules = msgspec.toml.decode(file.read_bytes(), type=WatchRules)
        rules.require_sense()
    except OSError as error:
        raise ConfigError(f"--watch `{file}`: {error.strerror or error}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, ConfigError) as error:
        raise ConfigError(f"--watch `{file}`: {error}") from error
    return rules
