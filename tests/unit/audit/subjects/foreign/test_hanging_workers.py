"""Foreign code that hangs and hangs is given less and less time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec

from sandlot.audit.subject import Conditions
from sandlot.audit.subjects.foreign import worker
from sandlot.audit.subjects.foreign.place import ForeignProcess, WorkerPlace
from sandlot.audit.subjects.worker_process import WorkerFrames, frame


@asynccontextmanager
async def start_hanging(_variables: dict[str, str]) -> AsyncIterator[ForeignProcess]:
    """A worker that loads, and answers that every request hung."""
    sender, receiver = anyio.create_memory_object_stream[tuple[str, bytes]](100)
    frames = WorkerFrames(1 << 20)

    async def send(data: bytes) -> None:
        frames.feed(data)
        request = msgspec.json.decode(frames.next())
        count = len(request.get("requests", ()))
        answers = [{"index": index, "lost": "hung"} for index in range(count)] + [{"done": True}] if count else [{"ready": {}}]
        for answer in answers:
            await sender.send(("stdout", frame(msgspec.json.encode(answer))))

    with sender, receiver:
        yield ForeignProcess(send, aiter(receiver))


async def test_after_many_that_hung_a_call_is_given_up_at_the_first_that_hangs(monkeypatch):
    monkeypatch.setattr(worker, "_MAX_HUNG", 8)
    workers = worker.ForeignWorkers(WorkerPlace(confined=True, start=start_hanging), "", {}, worker.Budget())
    for count, fates in ((8, ["hung"] * 8), (3, ["hung", "skipped", "skipped"])):
        answers = await workers.call([{}] * count, Conditions())
        assert [answer.lost.kind for answer in answers if answer.lost] == fates
    await workers.close()
