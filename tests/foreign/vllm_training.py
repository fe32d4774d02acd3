"""Publishing into a real vLLM while it runs, on this machine's CPU: `make test-vllm`, which starts one and names it here.

The server has the weights of rookie in fp32, so after every reload it must give each token the very probability that the
trainer's own model with that adapter gives it.
"""

import os
from pathlib import Path

import anyio
import numpy as np
import pytest
import torch

from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import Sampling
from sandlot.core.trace import text_message
from sandlot.core.types import Role
from sandlot.model.endpoint.served_adapters import AdaptedTokens, open_adapted
from sandlot.model.endpoint.tokens import parse_models, remote_config
from sandlot.model.nn.folder import load_folder
from sandlot.model.nn.lora import add_adapters, merged_state, save_adapter
from sandlot.model.render.open import open_renderer
from sandlot.store.reader import RunReader
from sandlot.train.algorithms.algorithms import PolicyGradient
from sandlot.train.algorithms.losses import Clip
from sandlot.train.publish import IntoServer, probe_row, require_agreement
from sandlot.train.recipe import Evaluation, Recipe
from sandlot.train.train import train_async
from sandlot.train.trainer import Optimisation, Trainer

pytestmark = pytest.mark.timeout(600)
FOLDER = Path(os.environ["SANDLOT_VLLM_FOLDER"])
SPEC = os.environ["SANDLOT_VLLM"]
ROOT = Path(__file__).parent.parent.parent
RENDERER = open_renderer(FOLDER)
PROMPT = RENDERER.render([text_message(Role.USER, "Sort the lines of fruits.txt.")], ())
CLOSE = 2e-4
"""How far apart two programs' fp32 log-probabilities of one token may be."""


def opened(owner="test"):
    return open_adapted(remote_config("vllm", SPEC.removeprefix("vllm:")), owner, environ={})


def trainer_with_adapters(rank=8, seed=0, strength=0.05):
    """Adapters that change what is said."""
    decoder = add_adapters(load_folder(FOLDER, dtype=torch.float32), rank, seed=seed)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in (each for each in decoder.parameters() if each.requires_grad):
            parameter.add_(strength * torch.randn(parameter.shape, generator=draw))
    return Trainer(decoder, Optimisation())


async def said_by(model: AdaptedTokens, max_tokens=48, seed=1):
    sampled = await model.sample(PROMPT, Sampling(max_tokens=max_tokens, seed=seed))
    return probe_row(PROMPT, np.frombuffer(sampled.ids, "<i4"), np.frombuffer(sampled.logprobs, "<f4")), sampled.versions


def apart(trainer: Trainer, row) -> float:
    (own,) = trainer.logprobs([row])
    return float(np.abs(own - row.logprobs[row.trained]).max())


async def names_at(model: AdaptedTokens) -> list[str]:
    models = await model._tokens.endpoint.get("/v1/models", parse_models)
    return [each.id for each in models if each.parent is not None]


async def test_after_every_reload_the_server_computes_what_the_trainer_computes(tmp_path):
    trainers = [trainer_with_adapters(seed=seed) for seed in range(3)]
    async with opened() as model:
        publisher = IntoServer(model, tmp_path / "published", str(FOLDER))
        for version, trainer in enumerate(trainers):
            await publisher.publish(version, trainer.decoder)
            row, versions = await said_by(model)
            assert versions == ((48, version),)
            assert apart(trainer, row) < CLOSE
            assert apart(trainers[version - 1], row) > 0.05  # it is this version's, not another's
            assert await names_at(model) == list(model.loaded)
            assert list((tmp_path / "published").iterdir()) == list(model.loaded.values())
        assert len(model.loaded) == 1
        name = next(iter(model.loaded))
    async with opened("another") as model:
        assert name not in await names_at(model)


async def test_a_request_in_flight_keeps_its_version_to_its_end(tmp_path):
    trainers = [trainer_with_adapters(seed=seed) for seed in range(2)]
    rows, versions = [None, None], [None, None]

    async with opened() as model:
        publisher = IntoServer(model, tmp_path / "published", str(FOLDER))

        async def long():
            rows[0], versions[0] = await said_by(model, 700)

        await publisher.publish(1, trainers[0].decoder)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(long)
            await anyio.wait_all_tasks_blocked()
            await publisher.publish(2, trainers[1].decoder)
            assert len(model.loaded) == len(await names_at(model)) == 2
            rows[1], versions[1] = await said_by(model)
        assert versions == [((700, 1),), ((48, 2),)]
        assert len(model.loaded) == len(await names_at(model)) == 1
    for trainer, row in zip(trainers, rows, strict=True):
        assert apart(trainer, row) < CLOSE


async def test_a_version_published_again_after_going_back_is_the_weights_it_went_back_to(tmp_path):
    trainers = [trainer_with_adapters(seed=seed) for seed in range(2)]
    async with opened() as model:
        publisher = IntoServer(model, tmp_path / "published", str(FOLDER))
        for trainer in (trainers[0], trainers[1], trainers[0]):
            await publisher.publish(5, trainer.decoder)
            row, _ = await said_by(model)
            assert apart(trainer, row) < CLOSE


async def test_what_a_killed_run_left_loaded_is_unloaded_when_it_goes_on(tmp_path):
    save_adapter(trainer_with_adapters().decoder, tmp_path / "left")
    async with opened("killed") as model:
        await model._load("killed-000007-0123", 7, tmp_path / "left")
        assert "killed-000007-0123" in await names_at(model)
    async with opened("killed") as model:
        assert await names_at(model) == []


async def test_a_rank_the_server_does_not_take_names_the_flag(tmp_path):
    save_adapter(trainer_with_adapters(rank=32).decoder, tmp_path / "large")
    async with opened() as model:
        with pytest.raises(ModelError, match=r"version 3 was not loaded.*--max-lora-rank"):
            await model.load(3, tmp_path / "large")
        assert model.loaded == {}


async def test_other_weights_than_the_recipes_are_found_out(tmp_path):
    async with opened() as model:
        publisher = IntoServer(model, tmp_path / "published", str(FOLDER))
        trainer = trainer_with_adapters()
        await publisher.publish(0, trainer.decoder)
        assert await require_agreement(model, trainer, RENDERER, Sampling()) < CLOSE
        changed = load_folder(FOLDER, dtype=torch.float32)
        changed.load_state_dict(merged_state(trainer_with_adapters(seed=9, strength=0.1).decoder))
        other = Trainer(changed, Optimisation())
        with pytest.raises(ConfigError, match="has other weights"):
            await require_agreement(model, other, RENDERER, Sampling())


async def test_a_run_learns_through_the_server(tmp_path):
    recipe = Recipe(
        name="served",
        env=ROOT / "recipes" / "pretend.py",
        model="rookie",
        server=SPEC,
        lora=16,
        steps=3,
        tasks=6,
        group=6,
        staleness=1,
        resample=1,
        select=lambda task: "single" in task.tags,
        algorithm=PolicyGradient(baseline="grpo", loss=Clip(0.2, 0.28, against="behaviour")),
        optimisation=Optimisation(learning_rate=3e-3, tokens=1024),
        sampling=Sampling(max_tokens=64),
        evaluation=Evaluation(every=3, tasks=8, group=2),
        at_once=36,
    )
    with anyio.fail_after(500):
        progress = await train_async(recipe, tmp_path)
    assert [step.version for step in progress.steps] == [1, 2, 3]
    assert [step.failed for step in progress.steps] == [0, 0, 0]
    assert progress.steps[0].kl < 1e-6  # what was sampled with the first version is what the trainer began with
    assert all(step.kl < 0.05 for step in progress.steps)
    assert max(step.staleness for step in progress.steps) <= 1
    assert [line.version for line in progress.evaluations] == [0, 3]
    measured = RunReader(tmp_path / "evaluations" / "000003")
    versions = {
        version
        for key in measured.done_keys()
        for node in measured.trace(*key).nodes
        if node.tokens
        for _, version in node.tokens.versions
    }
    assert versions == {3}
    async with opened("served") as model:
        assert await names_at(model) == []
