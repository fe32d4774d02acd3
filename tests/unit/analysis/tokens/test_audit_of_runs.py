"""A whole run, sampled token by token, kept, read back and computed again."""

import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch

import sandlot
from builders.model_folders import FAMILIES
from fakes.token_models import TinyModel, tiny_decoder
from sandlot.analysis.tokens.audit import check_tokens
from sandlot.core.errors import ConfigError
from sandlot.core.ports.model import Sampling
from sandlot.model.nn.folder import load_folder, save_folder
from sandlot.model.policy.tokens import token_policies
from sandlot.model.render.open import open_renderer
from sandlot.wiring.config import ModelConfig
from sandlot.wiring.models import SCHEMES

SOURCE = """
from random import Random
from sandlot import Ask, Score, environment

@environment("talk", tasks=3)
def talk(rng: Random):
    first = yield Ask("Say something.", golden="x")
    second = yield Ask("Again, please.", golden="x")
    yield Score(bool(second))
"""


@asynccontextmanager
async def open_tiny(rest, model, _agent, _env, _spend):
    """`tiny:FOLDER`: the slow obvious token model over a folder."""
    yield token_policies(TinyModel(load_folder(rest)), open_renderer(Path(rest)), model.sampling)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    like, path = FAMILIES["rookie"](tmp_path_factory.mktemp("like")), tmp_path_factory.mktemp("models") / "tiny"
    (like / "config.json").write_text(json.dumps({"eos_token_id": 400}))
    save_folder(tiny_decoder(), path, like=like)
    return path


@pytest.fixture
def env(tmp_path, monkeypatch):
    monkeypatch.setitem(SCHEMES, "tiny", open_tiny)
    (tmp_path / "talk.py").write_text(SOURCE)
    return tmp_path / "talk.py"


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(max_tokens=6),
        Sampling(temperature=0.6, top_p=0.9, top_k=40, max_tokens=6),
        Sampling(temperature=0.0, max_tokens=6),
    ],
    ids=["plain", "cut", "greedy"],
)
def test_a_run_is_exact_at_the_settings_it_was_sampled_with(folder, env, tmp_path, sampling):
    run = sandlot.run(env, ModelConfig(spec=f"tiny:{folder}", sampling=sampling), runs=tmp_path / "runs")
    found = check_tokens(run, f"hf:{folder}")
    assert found.verdict == "sound", found.faults
    assert found.tokens == found.positions["all"].tokens > 0
    assert check_tokens(run).verdict == "sound"
    assert all(trace.trainable for trace in run)


def test_the_gate_is_that_of_the_type_the_model_is_stored_in(folder, env, tmp_path):
    rounded = tmp_path / "rounded"
    save_folder(load_folder(folder), rounded, dtype=torch.bfloat16, like=folder)
    run = sandlot.run(env, ModelConfig(spec=f"tiny:{rounded}", sampling=Sampling(max_tokens=6)), runs=tmp_path / "runs")
    assert check_tokens(run, f"hf:{rounded}").gate == "bf16"
    assert check_tokens(run, f"hf:{folder}").gate == "fp32"
    assert check_tokens(run, f"hf:{rounded}", gate="fp32").verdict != "sound"


def test_another_model_than_the_runs_is_found_out(folder, env, tmp_path):
    run = sandlot.run(env, ModelConfig(spec=f"tiny:{folder}", sampling=Sampling(max_tokens=6)), runs=tmp_path / "runs")
    other = tmp_path / "other"
    save_folder(tiny_decoder(seed=3), other, like=folder)
    assert check_tokens(run, f"hf:{other}").verdict == "numerics"
    smaller = tmp_path / "smaller"
    save_folder(tiny_decoder(vocabulary=64), smaller, like=folder)
    with pytest.raises(ConfigError, match=r"token \d+ is not in the vocabulary of"):
        check_tokens(run, f"hf:{smaller}")


def test_a_run_without_ids_says_so(env, tmp_path):
    run = sandlot.run(env, "scripted:golden", runs=tmp_path / "runs")
    found = check_tokens(run)
    assert found.verdict == "no ids"
    assert len(found.without_ids) == 3


def test_an_unknown_gate_is_told_which_there_are(env, tmp_path):
    run = sandlot.run(env, "scripted:golden", runs=tmp_path / "runs")
    with pytest.raises(ConfigError, match="there are: fp32, bf16"):
        check_tokens(run, gate="fp8")
