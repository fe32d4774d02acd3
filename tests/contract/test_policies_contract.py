"""Our policies, held to the suite that we ship."""

from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from builders.model_folders import FAMILIES
from fakes.endpoint import FakeEndpoint, says
from fakes.token_models import TinyModel
from sandlot.core.ports.model import Sampling
from sandlot.core.trace import Node, Trace, text_message
from sandlot.core.types import Role
from sandlot.model.endpoint.chat import OpenAIConfig, open_openai
from sandlot.model.policy.chat import chat_policies
from sandlot.model.policy.replay import replay_policies
from sandlot.model.policy.scripted import scripted_policies
from sandlot.model.policy.tokens import token_policies
from sandlot.model.render.open import open_renderer
from sandlot.testing.policies import *


async def solve(agent, task):
    await agent.call("add", x=1)
    await agent.say("done")


@asynccontextmanager
async def speaking(calls):
    async with (
        FakeEndpoint(then=lambda request: says(f"seed {request.body['seed']}")) as endpoint,
        open_openai(OpenAIConfig(model="m", url=endpoint.url), environ={}) as model,
    ):
        yield chat_policies(model, Sampling(), calls=calls)


@asynccontextmanager
async def by_script(spec):
    yield scripted_policies(spec, solve)


@asynccontextmanager
async def from_recording():
    recorded = opening()
    recorded.append(Node(message=text_message(Role.ASSISTANT, "recorded"), parent=0, sampled=True, stop="stop", model="old"))
    yield replay_policies(lambda task, seed: recorded, then=scripted_policies("echo"))


@asynccontextmanager
async def by_tokens():
    with TemporaryDirectory() as folder:
        yield token_policies(TinyModel(), open_renderer(FAMILIES["rookie"](Path(folder))), Sampling(max_tokens=8))


SCRIPTED = ["golden", "noop", "refuse", "echo", "constant:x", "random", "mixed:0.5", "malformed", "loop", "flood"]
OPENED = {
    "spoken": lambda: speaking("native"),
    "spoken in text": lambda: speaking("text"),
    "replayed": from_recording,
    "rendered": by_tokens,
    **{f"scripted:{spec}": lambda spec=spec: by_script(spec) for spec in SCRIPTED},
}


@pytest.fixture(params=OPENED)
async def policies(request):
    async with OPENED[request.param]() as opened:
        yield opened


def opening() -> Trace:
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    trace.append(Node(message=text_message(Role.USER, "2+2?")))
    return trace
