import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.endpoint import FakeEndpoint, says, status
from fakes.toy_tokens import ScriptedTokens
from sandlot.core.errors import ConfigError, ModelError
from sandlot.core.ports.model import Sampling
from sandlot.core.trace import Usage, text_message
from sandlot.core.types import Role
from sandlot.model.endpoint.chat import OpenAIConfig, open_openai
from sandlot.model.endpoint.retry import Patience
from sandlot.model.endpoint.spend import Prices, Spend, SpendCaps, capped_chat, capped_tokens

HELLO = [text_message(Role.USER, "hello")]
TURN = {"prompt_tokens": 60, "completion_tokens": 40}
PRICES = Prices(prompt=1.0, completion=10.0, cached=0.5)


def model(endpoint):
    return open_openai(OpenAIConfig(model="m", url=endpoint.url), environ={}, patience=Patience(0))


def test_a_price_counts_cached_tokens_apart():
    usage = Usage(prompt_tokens=1_000_000, completion_tokens=100_000, cached_tokens=400_000)
    assert PRICES.usd(usage) == pytest.approx(0.6 + 0.2 + 1.0)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_price_is_never_negative(prompt, completion, cached):
    assert PRICES.usd(Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached)) >= 0


async def test_usage_carries_its_price():
    spend = Spend()
    async with FakeEndpoint([says("x", TURN)]) as endpoint, model(endpoint) as chat:
        reply = await capped_chat(chat, spend, PRICES).chat(HELLO, (), Sampling())
    assert reply.usage.usd == pytest.approx(60e-6 + 400e-6)
    assert spend.spent == reply.usage
    assert spend.tokens == 100


@pytest.mark.parametrize("caps", [SpendCaps(tokens=250), SpendCaps(usd=0.001)])
async def test_turns_end_when_the_cap_is_reached(caps):
    spend = Spend(caps)
    async with FakeEndpoint(then=says("x", TURN)) as endpoint, model(endpoint) as chat:
        paying = capped_chat(chat, spend, PRICES)
        for _ in range(3):
            await paying.chat(HELLO, (), Sampling())
        with pytest.raises(ModelError, match="cap") as caught:
            await paying.chat(HELLO, (), Sampling())
    assert caught.value.kind == "spend"
    assert len(endpoint.requests) == 3


async def test_many_at_once_do_not_all_slip_under_the_cap():
    spend, refused = Spend(SpendCaps(tokens=1_000)), []
    async with FakeEndpoint(then=says("x", TURN), latency_s=0.05) as endpoint, model(endpoint) as chat:
        paying = capped_chat(chat, spend)

        async def one():
            try:
                await paying.chat(HELLO, (), Sampling(max_tokens=99))
            except ModelError as error:
                refused.append(error.kind)

        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(one)
    assert spend.tokens == 1_000
    assert refused == ["spend"] * 90


async def test_a_turn_that_fails_costs_nothing_and_frees_its_reservation():
    spend = Spend(SpendCaps(tokens=600))
    async with FakeEndpoint([status(400)], then=says("x", TURN)) as endpoint, model(endpoint) as chat:
        paying = capped_chat(chat, spend)
        with pytest.raises(ModelError, match="400"):
            await paying.chat(HELLO, (), Sampling(max_tokens=599))
        await paying.chat(HELLO, (), Sampling(max_tokens=599))
    assert spend.tokens == 100


async def test_an_endpoint_that_counts_nothing_is_charged_the_estimate():
    spend = Spend()
    async with FakeEndpoint([says("x", {})]) as endpoint, model(endpoint) as chat:
        await capped_chat(chat, spend).chat(HELLO, (), Sampling(max_tokens=10))
    assert spend.guessed_turns == 1
    assert spend.spent.completion_tokens == 10


async def test_a_resumed_run_starts_with_what_was_spent():
    async with FakeEndpoint() as endpoint, model(endpoint) as chat:
        with pytest.raises(ModelError, match="cap"):
            await capped_chat(chat, Spend(SpendCaps(tokens=10), Usage(prompt_tokens=10))).chat(HELLO, (), Sampling())


async def test_a_cap_in_money_needs_prices():
    async with FakeEndpoint() as endpoint, model(endpoint) as chat:
        with pytest.raises(ConfigError, match="prices"):
            capped_chat(chat, Spend(SpendCaps(usd=1.0)))


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_caps_and_prices_must_be_numbers(value):
    with pytest.raises(ConfigError):
        SpendCaps(usd=value)
    with pytest.raises(ConfigError):
        Prices(prompt=value, completion=1.0)


# -- a model of our own ------------------------------------------------------------------------------------------------


async def test_a_model_of_tokens_keeps_its_name_and_pays_for_prompt_and_completion():
    own, spend = ScriptedTokens("four", "more", context=100), Spend(SpendCaps(tokens=20))
    model = capped_tokens(own, spend)
    sampled = await model.sample([1, 2, 3], Sampling(max_tokens=4), session="s")
    await model.release("s")
    assert (model.name, model.context, own.asked[0][3], own.released) == ("toy", 100, "s", ["s"])
    assert (spend.spent.prompt_tokens, spend.spent.completion_tokens) == (3, len(sampled.ids) // 4)
    await model.sample(range(20), Sampling(max_tokens=4))
    with pytest.raises(ModelError, match="cap") as refused:
        await model.sample([1], Sampling(max_tokens=4))
    assert (refused.value.kind, len(own.asked)) == ("spend", 2)


def test_a_model_of_tokens_has_no_price():
    with pytest.raises(ConfigError, match="`toy` has no price, so a cap in USD cannot apply"):
        capped_tokens(ScriptedTokens(), Spend(SpendCaps(usd=1.0)))
