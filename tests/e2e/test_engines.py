"""Models of our own, as a user has them: an engine in a process of its own, exact tokens in the traces, nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import anyio
import pytest

from builders.tiny_models import write_tiny
from drive.command_line import ENVIRONMENTS, environ
from drive.running import is_running
from sandlot.analysis.tokens.audit import check_tokens
from sandlot.core.concurrency.clock import time_limit
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.limits import Limits
from sandlot.core.ports.model import Sampling
from sandlot.core.task import Task
from sandlot.core.trace import Node, Trace, text_message
from sandlot.core.types import Dtype, Role
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.model.endpoint import child as engines
from sandlot.model.endpoint.child import open_engine, open_engine_tokens
from sandlot.run.config import RunConfig, Selection, plan_run
from sandlot.run.manifest import gather_facts
from sandlot.run.run import run_config
from sandlot.wiring.config import AgentConfig, ModelConfig
from sandlot.wiring.models import open_judge, open_policies, require_applicable

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny")


def wait_until_gone(pid: int) -> None:
    for _ in range(1000):
        if not is_running(pid):
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} is still there")


async def test_a_run_with_a_model_of_ours_has_exact_tokens(folder, tmp_path):
    model = ModelConfig(spec=f"hf:{folder}", sampling=Sampling(max_tokens=8), dtype=Dtype.BFLOAT16)
    config = RunConfig(env=str(ENVIRONMENTS / "arithmetic"), model=model, select=Selection(rollouts=3))
    run = await run_config(config, runs=tmp_path / "runs")
    traces = [run.trace(row.task, row.rollout) for row in run.rows]
    assert len(traces) == 3
    assert {node.dtype for trace in traces for node in trace.turns()} == {"bfloat16"}  # as named, and not as stored
    assert run.manifest.machine["processor"]
    assert check_tokens(run, model.spec).gate == "bf16"
    assert all(trace.trainable for trace in traces)
    assert all(node.context and node.tokens.versions == ((len(node.tokens), 0),) for trace in traces for node in trace.turns())
    assert engines._running == {}


async def test_the_renderer_is_part_of_the_setting_and_not_of_the_environment(folder, tmp_path):
    other = write_tiny(tmp_path / "other", "llama3")
    env = load(str(ENVIRONMENTS / "arithmetic"))
    prints = []
    for spec in (f"hf:{folder}", f"hf:{other}", "scripted:golden"):
        config = RunConfig(env="", model=ModelConfig(spec=spec))
        prints.append((await gather_facts(env, config, plan_run(env, config))).prints)
    assert len({each.setting for each in prints}) == 3
    assert len({each.environment for each in prints}) == 1


async def test_policies_and_a_judge_share_one_engine_and_its_death_is_told_as_that(folder):
    model = ModelConfig(spec=f"hf:{folder}", sampling=Sampling(max_tokens=2))
    env = Environment("plain")
    async with open_judge(ModelConfig(spec=model.spec)) as judge, open_policies(model, AgentConfig(), env) as policies:
        (engine,) = engines._running.values()
        assert (judge.name, policies.name, engine.num_users) == (model.spec, model.spec, 2)
        async with open_engine_tokens(model.spec) as tokens:
            await tokens.sample([1], Sampling(max_tokens=1))
            os.kill(engine.process.pid, signal.SIGKILL)
            with pytest.raises(ModelError, match="ended with code -9"):
                await tokens.sample([1], Sampling(max_tokens=1))
            await tokens.release("any")
    assert engines._running == {}


async def test_two_who_ask_at_once_share_one_engine(folder):
    found = []

    async def ask(ready: anyio.Event) -> None:
        async with open_engine(f"hf:{folder}") as engine:
            found.append(engine)
            if len(found) == 2:
                ready.set()
            await ready.wait()

    ready = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(ask, ready)
        group.start_soon(ask, ready)
    assert found[0] is found[1]
    assert engines._running == {}


async def test_an_engine_that_hangs_is_the_models_failure_and_not_a_slow_agents_score(folder, monkeypatch):
    monkeypatch.setattr(engines, "_PATIENCE_S", 0.0)
    model = ModelConfig(spec=f"hf:{folder}", sampling=Sampling(max_tokens=2))
    env = Environment("plain", limits=Limits(time_s=1.0))
    async with open_policies(model, AgentConfig(), env) as policies:
        (engine,) = engines._running.values()
        trace = Trace(run="r", task="t", rollout=0, seed=0)
        leaf = trace.append(Node(message=text_message(Role.USER, "hi")))
        async with policies.policy(Task("t", prompt="hi"), 1) as policy:
            os.kill(engine.process.pid, signal.SIGSTOP)
            try:
                with pytest.raises(ModelError) as caught, time_limit(env.limits.time_s) as limit:
                    await policy.turn(trace, leaf, ())
            finally:
                os.kill(engine.process.pid, signal.SIGCONT)
    assert (caught.value.kind, limit.cancel_called) == ("timeout", False)


async def test_an_engine_that_does_not_start_says_why(tmp_path):
    with pytest.raises(ConfigError, match="no folder"):
        async with open_engine(f"hf:{tmp_path / 'nothing'}"):
            pass
    assert engines._running == {}


PARENT = """
import anyio, sys
from sandlot.model.endpoint.child import open_engine
async def main():
    async with open_engine(sys.argv[1]) as engine:
        print(engine.process.pid, flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


def test_an_engine_does_not_outlive_a_parent_that_was_killed(folder):
    command = [sys.executable, "-c", PARENT, f"hf:{folder}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ()) as parent:
        engine = int(parent.stdout.readline())
        assert is_running(engine)
        parent.kill()
    wait_until_gone(engine)


@pytest.fixture
def place():
    """A folder with a short path: sockets have no more than 107 characters."""
    with tempfile.TemporaryDirectory(prefix="sl-") as made:
        yield Path(made)


@pytest.mark.system
async def test_the_folder_of_a_killed_parent_is_removed_by_the_next_one_and_those_in_use_are_not(folder, place, monkeypatch):
    command = [sys.executable, "-c", PARENT, f"hf:{folder}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ(TMPDIR=str(place))) as parent:  # noqa: ASYNC220 - a test
        engine = int(parent.stdout.readline())
        parent.kill()
    wait_until_gone(engine)
    (left,) = place.glob("sandlot-engine-*")
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.setattr(engines, "_NEW_S", -1.0)
    async with open_engine(f"hf:{folder}") as one:
        assert not left.exists()
        async with open_engine(f"hf:{folder}", ["--kv-gib", "0.5"]) as other:
            assert one.folder.is_dir()
            assert other.folder.is_dir()
    assert list(place.glob("sandlot-engine-*")) == []


def test_only_servers_that_report_are_followed():
    two = "m@http://127.0.0.1:9,http://127.0.0.1:10"
    for spec in (f"vllm:{two}", f"openai:{two}"):
        with pytest.raises(ConfigError, match="only `sandlot:` servers report"):
            require_applicable(ModelConfig(spec=spec, routing="reported"))
    with pytest.raises(ConfigError, match="several servers"):
        require_applicable(ModelConfig(spec="sandlot:m@http://127.0.0.1:9", routing="reported"))
    require_applicable(ModelConfig(spec=f"sandlot:{two}", routing="reported"))


def test_a_tokenizer_is_for_engines_of_others():
    for spec in ("rookie", "openai:m@http://127.0.0.1:9", "scripted:golden"):
        with pytest.raises(ConfigError, match="--tokenizer is for"):
            require_applicable(ModelConfig(spec=spec, tokenizer="/x"))
    with pytest.raises(ConfigError, match="--kv-gib is for"):
        require_applicable(ModelConfig(spec="vllm:m@http://127.0.0.1:9", kv_gib=1.0))
    with pytest.raises(ConfigError, match="--dtype is for"):
        require_applicable(ModelConfig(spec="vllm:m@http://127.0.0.1:9", dtype=Dtype.FLOAT32))
    with pytest.raises(ConfigError, match="`kv_dtype` is for smollm2, rookie, hf"):
        require_applicable(ModelConfig(spec="vllm:m@http://127.0.0.1:9", kv_dtype="int8"))
    require_applicable(ModelConfig(spec="sglang:m@http://127.0.0.1:9", tokenizer="/x"))
    require_applicable(ModelConfig(spec="rookie", kv_gib=1.0))


def test_the_served_model_answers_drains_and_ends_well(folder, tmp_path):
    command = [sys.executable, "-m", "sandlot", "serve", "--model", f"hf:{folder}", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environ()) as server:
        line = server.stdout.readline().decode()
        assert line.startswith(f"hf:{folder} in float32 at ")
        address = line.split(" at ")[1].strip()

        def post(path, **body):
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{address}/v1/{path}", json.dumps(body).encode(), headers)
            return json.loads(urllib.request.urlopen(request, timeout=20).read())

        hi = [{"role": "user", "content": "hi"}]
        chat = post("chat/completions", messages=hi, max_tokens=4, return_token_ids=True)
        again = post("completions", prompt=chat["prompt_token_ids"], max_tokens=4, return_token_ids=True, logprobs=1)
        metrics = urllib.request.urlopen(f"{address}/metrics", timeout=20).read().decode()
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
        assert server.stderr.read().decode().startswith(f"loading hf:{folder} ...")
    watched = {"prefix_hit_rate", "engine_kv_blocks_running", "engine_kv_blocks", "engine_occupancy", "engine_queue_p99_s"}
    assert {f"sandlot_{name}" for name in watched} <= {line.split(" ")[0] for line in metrics.splitlines()}
    assert len(chat["choices"][0]["token_ids"]) <= 4
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


@pytest.mark.parametrize(
    ("words", "said_so"),
    [
        (["serve"], "give what to serve"),
        (["serve", "--model", "gpt-9"], "unknown model"),
        (["serve", "--model", "hf:/nowhere"], "no folder"),
        (["run", ENVIRONMENTS / "arithmetic", "--model", "vllm:m@http://127.0.0.1:9"], "--tokenizer FOLDER"),
        (["run", ENVIRONMENTS / "arithmetic", "--model", "hf:/nowhere"], "no folder"),
        (["serve", "--model", "rookie", "--unix", "m.sock", "--token", "t"], "`--token` cannot be used when a model at a unix"),
        (
            ["serve", ENVIRONMENTS / "arithmetic", "--mcp", "--token", "t"],
            "`--token` cannot be used when an environment over stdio",
        ),
        (["serve", "--model", "rookie", "--task", "t"], "`--task` cannot be used when a model is served"),
        (
            ["serve", ENVIRONMENTS / "arithmetic", "--mcp", "--kv-gib", "2"],
            "`--kv-gib` cannot be used when an environment is served",
        ),
        (
            ["run", ENVIRONMENTS / "arithmetic", "--model", "scripted:golden", "--kv-gib", "2"],
            "--kv-gib is for smollm2, rookie, hf",
        ),
    ],
)
def test_wrong_use_is_told_with_the_fix(sandlot, words, said_so, tmp_path):
    done = sandlot(*words, cwd=tmp_path)
    assert done.code == 2, done.err
    assert said_so in done.err


@pytest.mark.parametrize(
    ("words", "said_so"),
    [
        (["serve", "--model", "rookie", "--port", 0], "`SANDLOT_SERVE_TOKEN`"),
        (["serve", ENVIRONMENTS / "arithmetic", "--mcp", "--transport", "http"], "`SANDLOT_SERVE_TOKEN`"),
        (["serve", ENVIRONMENTS / "arithmetic", "--openenv"], "`SANDLOT_SERVE_TOKEN`"),
        (["serve", ENVIRONMENTS / "arithmetic", "--mcp", "--task", "none"], "`none`"),
    ],
)
def test_the_token_in_the_variable_is_for_what_listens_at_a_port(sandlot, words, said_so, tmp_path):
    done = sandlot(*words, cwd=tmp_path, SANDLOT_SERVE_TOKEN="two long\nlines of text")
    assert (done.code, said_so in done.err) == (2, True), done.err


def test_what_others_put_into_a_shared_folder_is_neither_waited_for_nor_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    trap = tmp_path / f"{engines.PREFIX}x"
    trap.mkdir()
    os.mkfifo(trap / "lock")
    os.utime(trap, (0, 0))
    with monkeypatch.context() as other:
        other.setattr(os, "getuid", lambda: trap.stat().st_uid + 1)
        engines._make_folder()[1].close()  # pyright: ignore[reportPrivateUsage] - who opens an engine waits for nothing else
    assert trap.exists()
    os.utime(trap, (0, 0))
    engines._make_folder()[1].close()  # pyright: ignore[reportPrivateUsage] - as above; its own it does not wait for either
    assert not trap.exists()
