"""A real Prometheus scrapes a live run, evaluates the shipped rules, fires each of them, and answers by its API."""

import json
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from drive.command_line import environ
from drive.ports import free_port
from sandlot.observe.events import AlarmRaised, EvaluationEnded, RunEvent, StepLearned
from sandlot.observe.training_records import Learned, Measured
from sandlot.serve.metrics import serve_metrics

pytestmark = pytest.mark.system
HERE = Path(__file__).parents[1]
MONITORING = HERE.parent / "docs" / "monitoring"
GATED = HERE / "worlds" / "gated.py"
ALARMING = HERE / "worlds" / "alarming.py"
PATIENCE_S = 60


@contextmanager
def prometheus(folder: Path, *targets: int, rules: Path = MONITORING / "rules.yml") -> Iterator[str]:
    """A Prometheus of our own that scrapes these ports every 200 ms; yields its address."""
    config = {
        "global": {"scrape_interval": "200ms", "evaluation_interval": "200ms"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "sandlot", "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in targets]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", "--config.file=prometheus.yml", f"--web.listen-address={address}", "--storage.tsdb.path=data"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def ask(address: str, path: str, **query: str) -> dict:
    with urllib.request.urlopen(f"{address}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as reply:
        return json.load(reply)["data"]


def value(address: str, query: str) -> float | None:
    found = ask(address, "query", query=query)["result"]
    return float(found[0]["value"][1]) if found else None


def holds_within(seconds: float, holds: Callable[[], object]) -> bool:
    """Ask again until it holds or the time is over; Prometheus offers nothing to wait for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if holds():
                return True
        except OSError:  # it does not listen yet
            pass
        time.sleep(0.05)
    return False


def until(holds: Callable[[], object], what: str) -> None:
    assert holds_within(PATIENCE_S, holds), what


def dashboard_queries() -> list[str]:
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    return [query.replace("$instance", ".*").replace("$__rate_interval", "1m") for query in queries]


def test_a_live_run_is_scraped_until_it_ends(tmp_path: Path) -> None:
    port, gates = free_port(), tmp_path / "gates"
    gates.mkdir()
    command = [
        sys.executable,
        "-m",
        "sandlot",
        "run",
        str(GATED),
        "-m",
        "scripted:golden",
        "--group",
        "2",
        "--metrics",
        str(port),
    ]
    with prometheus(tmp_path, port) as address:
        run = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environ(GATES=str(gates)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            until(lambda: value(address, "sandlot_rollouts_in_flight") == 4, "four rollouts wait")
            (gates / "early").touch()
            until(lambda: value(address, "sandlot_rollouts_in_flight") == 2, "two rollouts wait")
            assert value(address, "sandlot_rollouts_started_total") == 6
            assert value(address, "sum(sandlot_rollouts_ended_total)") == 4
            assert value(address, 'sandlot_rollouts_ended_total{outcome="scored",end="done",split="train"}') == 2
            assert value(address, 'sandlot_rollout_failures_total{side="environment"}') == 2
            assert value(address, 'sandlot_rollout_failures_total{side="model"}') == 0
            assert value(address, 'sandlot_tool_call_duration_seconds_count{tool="wait"}') == 2
            assert value(address, "sum(sandlot_turns_total)") == value(address, "sandlot_model_turn_duration_seconds_count")
            quantile = value(address, "histogram_quantile(0.95, sum by (le) (sandlot_model_turn_duration_seconds_bucket))")
            assert quantile is not None
            assert 0 < quantile < 1800
            assert value(address, 'sandlot_run_info{environment="gated",model="scripted:golden"}') == 1
            assert value(address, 'up{job="sandlot"}') == 1
            until(lambda: (value(address, "sandlot_event_loop_lag_seconds") or 0) > 0, "the loop lag is reported")
            (rules,) = ask(address, "rules")["groups"]
            assert {rule["health"] for rule in rules["rules"]} == {"ok"}
            for query in dashboard_queries():
                ask(address, "query", query=query)  # a query that Prometheus refuses is HTTP 400
            assert [value(address, query) for query in dashboard_queries()[:1]] == [2]
            (gates / "late").touch()
            out, err = run.communicate(timeout=PATIENCE_S)
        finally:
            run.kill()
            run.wait()
        assert run.returncode == 1, err  # two rollouts failed
        assert b"4 scored" in out
        until(lambda: value(address, 'up{job="sandlot"}') == 0, "the server ended with the run")


def test_the_shipped_rules_fire_when_they_should_and_only_then() -> None:
    for words in (["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]):
        done = subprocess.run(["promtool", *words], cwd=MONITORING, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


FASTER = 300
"""How many times shorter than shipped the times of the rules are, so that minutes become a second or less."""
UNITS = {"s": 1, "m": 60, "h": 3600}


def hurried(rules: str) -> str:
    """The shipped rules with every range, offset and `for` shortened; nothing else is changed."""

    def shorter(match: re.Match[str]) -> str:
        return f"{match[1]}{int(match[2]) * UNITS[match[3]] * 1000 // FASTER}ms"

    return re.sub(r"(\[|offset |for: )(\d+)([smh])\b", shorter, rules)


STEP = Learned(
    version=1, reward=0.2, passed=0.0, outcome=0.0, rollouts=8, failed=0, groups=2, informative=2, loss=0.1, norm=1.0, tokens=100,
    shared=1.0, kl=0.001, entropy=1.0, clipped=0.0, staleness=0, sampled=100, seconds=1.0, update_s=0.1, phases={},
)  # fmt: skip


def training_that_goes_wrong() -> Iterator[RunEvent]:
    """Events as of a training whose reward rises alone, and whose policy jumps away in the end."""
    measured = Measured(
        version=0, mean=0.3, low=0.2, high=0.4, passed=0.1, passed_low=0.0, passed_high=0.2, rollouts=8, failed=0, run="e"
    )
    for number in range(40):
        kl = 0.5 if number > 35 else 0.001
        yield StepLearned(step=msgspec.structs.replace(STEP, version=number, reward=0.2 + 0.01 * number, kl=kl), alarmed=False)
        if number % 10 == 0:
            yield EvaluationEnded(evaluation=measured)
    yield AlarmRaised(kind="reward_hacking", sentence="the reward rose and the outcome did not")


def fired(address: str) -> set[str]:
    found = ask(address, "query", query='last_over_time(ALERTS{alertstate="firing"}[5m])')["result"]
    return {series["metric"]["alertname"] for series in found}


@contextmanager
def live(world: Path, folder: Path, port: int, *words: object) -> Iterator[None]:
    """A run in a process of its own, which serves metrics until the block ends."""
    gates = folder / "gates"
    gates.mkdir(exist_ok=True)
    run = [sys.executable, "-m", "sandlot", "run", world, "-m", "scripted:golden", "--metrics", port, *words]
    with (folder / "runs.log").open("ab") as log:
        process = subprocess.Popen([*map(str, run)], cwd=folder, env=environ(GATES=str(gates)), stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_every_shipped_rule_fires_on_what_is_live(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(hurried((MONITORING / "rules.yml").read_text()))
    wanted = set(re.findall(r"alert: (\w+)", rules.read_text()))
    failing, stalled = free_port(), free_port()
    with (
        serve_metrics(0) as training,
        prometheus(tmp_path, failing, stalled, int(training.url.rpartition(":")[2].partition("/")[0]), rules=rules) as address,
        live(ALARMING, tmp_path, failing, "--group", 100_000, "--at-once", 4),
        live(GATED, tmp_path, stalled, "--task", "late"),
    ):
        until(lambda: value(address, "count(up == 1)") == 3, "all three are scraped")
        before = fired(address)
        (tmp_path / "gates" / "scraped").touch()
        for _attempt in range(3):  # a jump is seen only if a scrape falls beside it, and a busy machine scrapes late
            for event in training_that_goes_wrong():
                training.receive(event)
                time.sleep(0.2)  # a scrape between two steps
            if holds_within(PATIENCE_S, lambda: fired(address) >= wanted):
                break
        assert fired(address) >= wanted
        (group,) = ask(address, "rules")["groups"]
    assert {rule["health"] for rule in group["rules"]} == {"ok"}
    assert not before & {"SandlotTrainingAlarm", "SandlotKlJump", "SandlotRewardWithoutHeldoutGain"}
    assert len(wanted) == 6
