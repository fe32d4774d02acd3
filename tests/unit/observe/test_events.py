"""Events reach every sink, and a sink that raises harms nothing else."""

import functools
import logging

import pytest

from sandlot.observe.events import RunEnded, RunEvent, SinkFailed, fan_out


def test_every_sink_gets_every_event_in_order() -> None:
    first: list[RunEvent] = []
    second: list[RunEvent] = []
    emit = fan_out(first.append, second.append)
    events = [RunEnded(run="one"), RunEnded(run="two")]
    for event in events:
        emit(event)
    assert first == second == events


def test_a_sink_that_raises_is_left_out_and_the_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    got: list[RunEvent] = []
    seen: list[RunEvent] = []

    def broken(event: RunEvent) -> None:
        seen.append(event)
        raise OSError("disk full")

    emit = fan_out(broken, got.append)
    with caplog.at_level(logging.WARNING):
        emit(RunEnded(run="one", at=1.0))
        emit(RunEnded(run="two", at=2.0))
    assert len(seen) == 1
    failure, *events = got
    assert isinstance(failure, SinkFailed)
    assert failure.sink.endswith("broken")
    assert failure.reason == "OSError: disk full"
    assert events == [RunEnded(run="one", at=1.0), RunEnded(run="two", at=2.0)]
    assert [record.message for record in caplog.records] == ["sink failed"]


def test_a_sink_that_fails_on_the_failure_of_another_is_left_out_once() -> None:
    def broken(event: RunEvent) -> None:
        raise ValueError(type(event).__name__)

    got: list[RunEvent] = []
    emit = fan_out(broken, functools.partial(broken), got.append)
    emit(RunEnded(run="one"))
    assert [type(event).__name__ for event in got] == ["SinkFailed", "SinkFailed", "RunEnded"]


def test_an_interrupt_is_not_a_failure_of_the_sink() -> None:
    def interrupted(_event: RunEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fan_out(interrupted)(RunEnded(run="one"))
