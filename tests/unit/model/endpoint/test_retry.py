import random

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.concurrency.clock import Clock
from sandlot.core.errors import ModelError
from sandlot.model.endpoint.retry import (
    FIRST_WAIT_S,
    LONGEST_RETRY_AFTER_S,
    LONGEST_WAIT_S,
    Patience,
    Retry,
    call_with_retries,
    listen_for_retries,
    report_retry,
    retry_after,
)


@given(st.integers(1, 10_000), st.integers())
def test_a_wait_is_drawn_between_zero_and_the_doubled_ceiling(attempt, seed):
    wait_s = Patience(draw=random.Random(seed).uniform).wait_before(attempt, None)
    assert 0 <= wait_s <= min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(attempt - 1, 100))


@given(st.integers(1, 100), st.floats(0, 1e6), st.integers())
def test_an_endpoint_s_wish_is_honoured_up_to_the_cap(attempt, asked_s, seed):
    wait_s = Patience(draw=random.Random(seed).uniform).wait_before(attempt, asked_s)
    assert min(asked_s, LONGEST_RETRY_AFTER_S) <= wait_s <= LONGEST_RETRY_AFTER_S + LONGEST_WAIT_S


@given(st.floats(0, 1000), st.integers(), st.floats(0, 50))
async def test_retrying_ends_within_its_patience(patience_s, seed, attempt_s):
    now = [0.0]

    async def sleep(seconds):
        now[0] += seconds

    async def attempt():
        now[0] += attempt_s
        return ModelError("down", kind="server", retryable=True)

    told: list[Retry] = []
    patience = Patience(patience_s, random.Random(seed).uniform, sleep, Clock(lambda: now[0], lambda: now[0]))
    with pytest.raises(ModelError), listen_for_retries(told.append):
        await call_with_retries(patience, attempt)
    assert now[0] <= patience_s + 2 * attempt_s + 1e-6


async def test_what_trying_again_cannot_mend_is_raised_at_once():
    async def attempt():
        return ModelError("no", kind="auth")

    with pytest.raises(ModelError, match=r"^no$"):
        await call_with_retries(Patience(), attempt)


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text(alphabet=st.characters(codec="ascii"))))
def test_any_header_gives_seconds_or_nothing(headers):
    seconds = retry_after(headers, 0.0)
    assert seconds is None or 0 <= seconds < float("inf")


def test_every_listener_around_a_retry_hears_it_and_none_after_its_block():
    heard: list[str] = []
    retry = Retry(attempt=1, kind="server", message="m", wait_s=0.0)
    with listen_for_retries(lambda _retry: heard.append("outer")):
        with listen_for_retries(lambda _retry: heard.append("inner")):
            report_retry(retry)
        report_retry(retry)
    report_retry(retry)
    assert heard == ["inner", "outer", "outer"]


async def test_a_task_that_outlives_the_inner_listener_still_reaches_the_outer_one():
    heard: list[str] = []
    left = anyio.Event()

    async def report() -> None:
        await left.wait()
        report_retry(Retry(attempt=1, kind="server", message="m", wait_s=0.0))

    with listen_for_retries(lambda _retry: heard.append("outer")):
        async with anyio.create_task_group() as group:
            with listen_for_retries(lambda _retry: heard.append("inner")):
                group.start_soon(report)
            left.set()
    assert heard == ["outer"]
