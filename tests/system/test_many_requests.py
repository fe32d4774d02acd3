"""Many requests open at once against an endpoint in another process."""

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from sandlot.core.ports.model import Sampling
from sandlot.core.trace import text_message
from sandlot.core.types import Role
from sandlot.model.endpoint.chat import OpenAIConfig, open_openai

ENDPOINT = Path(__file__).parent.parent / "fakes" / "endpoint.py"
NUM_REQUESTS = 2000


@pytest.fixture
def url():
    with subprocess.Popen([sys.executable, str(ENDPOINT), "--latency-s", "1"], stdout=subprocess.PIPE, text=True) as server:
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.mark.system
@pytest.mark.timeout(300)
async def test_two_thousand_requests_are_open_at_once_and_all_come_back(url):
    replies = []

    async def one(chat):
        replies.append(await chat.chat([text_message(Role.USER, "hello")], (), Sampling()))

    config = OpenAIConfig(model="m", url=url, at_once=NUM_REQUESTS)
    async with open_openai(config, environ={}) as chat, anyio.create_task_group() as group:
        for _ in range(NUM_REQUESTS):
            group.start_soon(one, chat)
    assert len(replies) == NUM_REQUESTS
