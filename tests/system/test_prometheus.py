"""A real Prometheus scrapes a live run, evaluates the shipped rules, and answers by its API."""

import json
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command_line import environ

pytestmark = pytest.mark.system
HERE = Path(__file__).parents[1]
MONITORING = HERE.parent / "docs" / "monitoring"
GATED = HERE / "worlds" / "gated.py"
PATIENCE_S = 60


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[str]:
    """A Prometheus of our own that scrapes one port every 200 ms; yields its address."""
    config = {
        "global": {"scrape_interval": "200ms", "evaluation_interval": "200ms"},
        "rule_files": [str(MONITORING / "rules.yml")],
        "scrape_configs": [{"job_name": "sandlot", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}],
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


def until(holds: Callable[[], object], what: str) -> None:
    """Ask again until it holds; Prometheus offers nothing to wait for."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            if holds():
                return
        except OSError:  # it does not listen yet
            pass
        assert time.monotonic() < end, what
        time.sleep(0.05)


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
