"""Training: from graded rollouts to better weights. Needs the `torch` extra.

Authors of recipes import from here. Each name is imported when it is first used.

A recipe:
    Recipe, Evaluation, Optimisation, CollapseGuard, Sampling, AgentConfig    all settings of a training run
    TrainingEnv, TowardsBand                     several environments; sampling weights that follow the pass rate
    OwnPolicy                                   a seat that learns with weights of its own, for `Recipe(seats=...)`
    TaskRecord, GroupResult                     what weights of your own, `Recipe(weigh=...)`, are computed from
    load_recipe                                 a recipe from a Python file
    polite, spaced                              held-out tasks in other words, for `Evaluation(variants=...)`

Algorithms, for `Recipe(algorithm=...)`:
    PolicyGradient, Ppo, Imitate, Prefer        GRPO and its relatives; PPO; SFT; DPO
    Shaped, Overlong, Shorter                   rewards that count length too
    Algorithm, Group, Member, Row, TrainingRow, TokenLoss    what an algorithm of your own receives and returns

Losses, for `PolicyGradient(loss=...)` and `Prefer(loss=...)`:
    Clip, Cispo, Dppo, Gspo, Reinforce, Sapo, OffPolicyMask, Correction    policy losses
    Dpo, Ipo, SimPo, BradleyTerry               preference losses; the last is for reward models
    Component, Columns                          what a loss of your own is, and receives

Reward models, trained on pairs:
    RewardRecipe, train_reward_model            all settings of one; train it
    RewardModel                                 for `Recipe(reward=...)`
    RewardModelRecord, PairAgreement            its agreement with held-out pairs

What came out:
    TrainingProgress, Outcome, outcome_of       every step and evaluation; the summary

For readers of the code: `loop.py` first (collect, weight, update, publish, on one screen), then `algorithms/` (traces to
per-token losses) and `forest/` (shared prefixes are computed once).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandlot.core.ports.model import Sampling as Sampling
    from sandlot.train.algorithms.algorithms import Algorithm as Algorithm
    from sandlot.train.algorithms.algorithms import Imitate as Imitate
    from sandlot.train.algorithms.algorithms import PolicyGradient as PolicyGradient
    from sandlot.train.algorithms.algorithms import Ppo as Ppo
    from sandlot.train.algorithms.algorithms import Prefer as Prefer
    from sandlot.train.algorithms.algorithms import TokenLoss as TokenLoss
    from sandlot.train.algorithms.algorithms import TrainingRow as TrainingRow
    from sandlot.train.algorithms.losses import Cispo as Cispo
    from sandlot.train.algorithms.losses import Clip as Clip
    from sandlot.train.algorithms.losses import Columns as Columns
    from sandlot.train.algorithms.losses import Component as Component
    from sandlot.train.algorithms.losses import Correction as Correction
    from sandlot.train.algorithms.losses import Dppo as Dppo
    from sandlot.train.algorithms.losses import Gspo as Gspo
    from sandlot.train.algorithms.losses import OffPolicyMask as OffPolicyMask
    from sandlot.train.algorithms.losses import Reinforce as Reinforce
    from sandlot.train.algorithms.losses import Sapo as Sapo
    from sandlot.train.algorithms.preferences import BradleyTerry as BradleyTerry
    from sandlot.train.algorithms.preferences import Dpo as Dpo
    from sandlot.train.algorithms.preferences import Ipo as Ipo
    from sandlot.train.algorithms.preferences import SimPo as SimPo
    from sandlot.train.algorithms.shaping import Overlong as Overlong
    from sandlot.train.algorithms.shaping import Shaped as Shaped
    from sandlot.train.algorithms.shaping import Shorter as Shorter
    from sandlot.train.guard import CollapseGuard as CollapseGuard
    from sandlot.train.own_policy import OwnPolicy as OwnPolicy
    from sandlot.train.recipe import Evaluation as Evaluation
    from sandlot.train.recipe import Recipe as Recipe
    from sandlot.train.recipe import load_recipe as load_recipe
    from sandlot.train.report.progress import TrainingProgress as TrainingProgress
    from sandlot.train.report.summary import Outcome as Outcome
    from sandlot.train.report.summary import outcome_of as outcome_of
    from sandlot.train.reward_model import PairAgreement as PairAgreement
    from sandlot.train.reward_model import RewardModel as RewardModel
    from sandlot.train.reward_model import RewardModelRecord as RewardModelRecord
    from sandlot.train.reward_training import RewardRecipe as RewardRecipe
    from sandlot.train.reward_training import train_reward_model as train_reward_model
    from sandlot.train.rows import Group as Group
    from sandlot.train.rows import Member as Member
    from sandlot.train.rows import Row as Row
    from sandlot.train.trainer import Optimisation as Optimisation
    from sandlot.train.training_env import TrainingEnv as TrainingEnv
    from sandlot.train.variants import polite as polite
    from sandlot.train.variants import spaced as spaced
    from sandlot.train.weights import GroupResult as GroupResult
    from sandlot.train.weights import TaskRecord as TaskRecord
    from sandlot.train.weights import TowardsBand as TowardsBand
    from sandlot.wiring.config import AgentConfig as AgentConfig

_NAMES = {
    "core.ports.model": ["Sampling"],
    "train.algorithms.algorithms": ["Algorithm", "Imitate", "PolicyGradient", "Ppo", "Prefer", "TokenLoss", "TrainingRow"],
    "train.algorithms.losses": [
        *("Cispo", "Clip", "Columns", "Component", "Correction", "Dppo", "Gspo", "OffPolicyMask", "Reinforce", "Sapo"),
    ],
    "train.algorithms.preferences": ["BradleyTerry", "Dpo", "Ipo", "SimPo"],
    "train.algorithms.shaping": ["Overlong", "Shaped", "Shorter"],
    "train.guard": ["CollapseGuard"],
    "train.own_policy": ["OwnPolicy"],
    "train.recipe": ["Evaluation", "Recipe", "load_recipe"],
    "train.report.progress": ["TrainingProgress"],
    "train.report.summary": ["Outcome", "outcome_of"],
    "train.reward_model": ["PairAgreement", "RewardModel", "RewardModelRecord"],
    "train.reward_training": ["RewardRecipe", "train_reward_model"],
    "train.rows": ["Group", "Member", "Row"],
    "train.trainer": ["Optimisation"],
    "train.training_env": ["TrainingEnv"],
    "train.variants": ["polite", "spaced"],
    "train.weights": ["GroupResult", "TaskRecord", "TowardsBand"],
    "wiring.config": ["AgentConfig"],
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - each name is imported on first use


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module `sandlot.train` has no name `{name}`; it has: {', '.join(sorted(_HOMES))}")
    return getattr(import_module(f"sandlot.{_HOMES[name]}"), name)
