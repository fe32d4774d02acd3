"""How many rollouts at once: a fixed number far beyond what the model can take, the right one, and one that is found out.

    make bench NAME=admission

Two endpoints, each good for 16 requests at once: one answers more slowly beyond that, so that its throughput falls, and one
refuses. The bound is all answers at the rate of 16 at once. Wall-clock is the point, and the loop is mostly idle. Every run is
taken to its end, and every rollout must be there with full marks.
"""

import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import anyio
from endpoint import running
from report import Report, Row, publish, say

from sandlot.run.config import RunConfig, Selection
from sandlot.run.run import run_config
from sandlot.wiring.config import ModelConfig

NAME = "admission"
CAPACITY, TOO_MANY = 16, 256
LATENCY_S = 0.25
WAYS = {"adapt": (TOO_MANY, True), "fixed 256": (TOO_MANY, False), "fixed 16, which is right": (CAPACITY, False)}
ENDPOINTS = {"throughput falls beyond 16": {"knee": CAPACITY}, "refuses beyond 16": {"most": CAPACITY}}


async def seconds_of(url: str, rollouts: int, at_once: int, *, adapt: bool) -> float:
    model = ModelConfig(spec=f"openai:fake@{url}", connections=TOO_MANY, patience_s=600.0)
    config = RunConfig(env="arithmetic", model=model, select=Selection(rollouts=rollouts), at_once=at_once, adapt=adapt)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = await run_config(config, runs=Path(folder))
        found = run.summary()
        if run.verdict != "complete" or found.scored != rollouts or found.pass_rate.value != 1.0:
            raise RuntimeError(f"{run.verdict}, {found.scored} of {rollouts} scored; its figures would mean nothing")
        record = run.sittings[-1].admission
    if record is not None:
        say(f"  {record.describe()}")
    return time.monotonic() - started


async def measured(*, small: bool) -> Report:
    rollouts = 100 if small else 600
    least = rollouts * LATENCY_S / CAPACITY
    rows: list[Row] = []
    seconds: dict[str, dict[str, float]] = {}
    retries: dict[str, dict[str, int]] = {}
    for what, behaviour in ENDPOINTS.items():
        seconds[what], retries[what] = {}, {}
        for way, (at_once, adapt) in WAYS.items():
            with running(latency_s=LATENCY_S, **behaviour) as server:
                seconds[what][way] = await seconds_of(server.url, rollouts, at_once, adapt=adapt)
                retries[what][way] = server.stats()["refused"]
            say(f"{what}, {way}: {seconds[what][way]:.1f} s, bound {least:.1f}, {retries[what][way]} refused")
        took, refused = seconds[what], retries[what]
        rows.append(Row(f"{what}: seconds, less is better", took["adapt"], _others(took)))
        rows.append(Row("the same, of the bound", took["adapt"] / least, {k: v / least for k, v in _others(took).items()}))
        if any(refused.values()):
            rows.append(Row("requests refused, less is better", refused["adapt"], _others(refused)))
    ratios = {f"{what}, fixed 256 to adapt": took["fixed 256"] / took["adapt"] for what, took in seconds.items()}
    return Report(NAME, {"seconds": seconds, "refused": retries, "bound": least}, {}, ratios, rows)


def _others(found: Mapping[str, float]) -> dict[str, float]:
    return {way: value for way, value in found.items() if way != "adapt"}


if __name__ == "__main__":
    small = "--small" in sys.argv
    publish(anyio.run(partial(measured, small=small)), write_table=not small)
