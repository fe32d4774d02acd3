"""What every `TokenModel` promises.

Your fixture is `model`: your model, with at least 512 tokens in its vocabulary. Give it a short context, such as 512 tokens: it
is filled.
"""

import anyio
import anyio.lowlevel
import msgspec
import numpy as np
import pytest

from sandlot.core.errors import ModelError
from sandlot.core.ports.model import Sampled, Sampling, TokenModel
from sandlot.testing.running import anyio_backend as anyio_backend
from sandlot.testing.running import pytestmark as pytestmark

_PROMPT = [1, 2, 3]
_EVERY_ID = range(512)


def _whole(sampled: Sampled) -> list[int]:
    """The ids, after everything that must hold of any completion."""
    ids, logprobs = np.frombuffer(sampled.ids, "<i4"), np.frombuffer(sampled.logprobs, "<f4")
    assert len(ids) == len(logprobs) == sum(count for count, _ in sampled.versions) > 0
    assert np.isfinite(logprobs).all()
    assert (logprobs <= 0).all()
    assert sampled.stop in {"stop", "length"}
    assert sampled.cached >= 0
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sampled), type=Sampled) == sampled
    return ids.tolist()


@pytest.mark.parametrize("most", [1, 2, 17])
async def test_no_more_tokens_come_than_were_asked_for(model: TokenModel, most: int) -> None:
    sampled = await model.sample(_PROMPT, Sampling(max_tokens=most))
    assert len(_whole(sampled)) == most
    assert sampled.stop == "length"


async def test_the_stop_token_that_was_sampled_is_one_of_them(model: TokenModel) -> None:
    sampled = await model.sample(_PROMPT, Sampling(max_tokens=9), stop_ids=_EVERY_ID)
    assert len(_whole(sampled)) == 1
    assert sampled.stop == "stop"


async def test_without_a_cap_it_ends_at_the_latest_with_the_context(model: TokenModel) -> None:
    prompt = [1] * (model.context - 20)
    assert len(_whole(await model.sample(prompt, Sampling()))) <= 20


@pytest.mark.parametrize("excess", [0, 1, 1000])
async def test_a_prompt_that_leaves_no_room_is_a_context_error(model: TokenModel, excess: int) -> None:
    with pytest.raises(ModelError) as caught:
        await model.sample([1] * (model.context + excess), Sampling(max_tokens=1))
    assert caught.value.kind == "context"


async def test_the_same_seed_samples_the_same(model: TokenModel) -> None:
    sampling = Sampling(max_tokens=8, seed=3)
    first, second = [await model.sample(_PROMPT, sampling) for _ in range(2)]
    assert (first.ids, first.stop) == (second.ids, second.stop)


async def test_many_may_be_sampled_at_once(model: TokenModel) -> None:
    done: list[tuple[int, int]] = []

    async def one(number: int) -> None:
        done.append((number, len(_whole(await model.sample([1] * number, Sampling(max_tokens=number), session=str(number))))))

    async with anyio.create_task_group() as group:
        for number in range(1, 15):
            group.start_soon(one, number)
    assert sorted(done) == [(number, number) for number in range(1, 15)]


async def test_a_cancelled_completion_leaves_the_model_usable(model: TokenModel) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(model.sample, _PROMPT, Sampling())
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert _whole(await model.sample(_PROMPT, Sampling(max_tokens=2)))


async def test_any_session_can_be_released(model: TokenModel) -> None:
    await model.sample(_PROMPT, Sampling(max_tokens=1), session="a/b c")
    await model.release("a/b c")
    await model.release("never seen")
    assert _whole(await model.sample(_PROMPT, Sampling(max_tokens=1), session="a/b c"))


async def test_it_says_who_it_is_and_how_much_it_takes(model: TokenModel) -> None:
    assert model.name
    assert model.name.isprintable()
    assert model.context > 64
