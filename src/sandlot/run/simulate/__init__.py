"""A discrete-event simulation of model instances that serve rollouts: the plan past one machine.

Read `simulation.py` first. `workload.py` says what is to be done, `fleet.py` what does it, `rules.py` in which order (with the
policies of `run/schedule`), `bound.py` how fast it could be at best.
"""

from sandlot.run.simulate.fleet import Fleet
from sandlot.run.simulate.result import SimulatedRun
from sandlot.run.simulate.rules import Rules, named_rules
from sandlot.run.simulate.simulation import compare_rules, simulate
from sandlot.run.simulate.workload import (
    SEER,
    LengthModel,
    PlannedRollout,
    PlannedTurn,
    Workload,
    describe_workload,
    make_workload,
)

__all__ = [
    "SEER",
    "Fleet",
    "LengthModel",
    "PlannedRollout",
    "PlannedTurn",
    "Rules",
    "SimulatedRun",
    "Workload",
    "compare_rules",
    "describe_workload",
    "make_workload",
    "named_rules",
    "simulate",
]
