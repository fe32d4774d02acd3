"""A run whose traces hold everything that the pages of a trace and a group show, all of it hostile."""

import array
import struct
import zlib
from pathlib import Path

import anyio

import sandlot
from sandlot.core.rubric import CheckResult, CheckVerdict, RubricScore
from sandlot.core.tokens import packed_ids
from sandlot.core.trace import (
    EvidenceRecord,
    FileRecord,
    ImagePart,
    Message,
    Node,
    Reasoning,
    Scored,
    Text,
    Tokens,
    ToolCall,
    ToolResult,
    Trace,
    text_message,
)
from sandlot.core.trace_row import row_of
from sandlot.core.types import End, Role, digest
from sandlot.store.directory import open_run

ATTACK = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>\"'"
SECRET = "sk-proj-" + "A1b2C3d4" * 4
ADDRESS = "jane.doe@people.example"
ENVIRONMENT = """
from sandlot import Environment, Task

env = Environment("made")

@env.tasks
def tasks(rng):
    yield Task(id="made", prompt="go")

@env.check(points=1)
def said(evidence, task):
    return True
"""
SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20" onload="document.title=\'owned\'">'
    b'<script>document.title="owned"</script><rect width="40" height="20"/></svg>'
)
HTML = b"<!doctype html><script>document.title='owned'</script><p>a page of the agent</p>"
PDF = (
    b"%PDF-1.1\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
    b"trailer<</Root 1 0 R>>\n%%EOF"
)
CAST = b'{"version": 2, "width": 80, "height": 24}\n[0.5, "o", "hello\\r\\n"]\n[1.5, "o", "\\u001b[31mred\\u001b[0m <b>\\r\\n"]\n'
FILES = {
    "/out/drawing.svg": SVG,
    "/out/page.html": HTML,
    "/out/paper.pdf": PDF,
    "/out/table.csv": b"name,points\n<b>ann</b>,3\nbob,4\n",
    "/out/session.cast": CAST,
    "/out/raw.bin": b"\0\1\2\3" * 8,
    f"/out/{ATTACK.replace('/', '')}.txt": ATTACK.encode(),
    "/out/mail.txt": f"write to {ADDRESS}, key {SECRET}\n".encode(),
    "/work/notes.txt": b"one\ntwo\nthree and a half\n",
}
FOUND = {"/work/notes.txt": b"one\ntwo\nthree\n", "/work/same.txt": b"same\n", "/work/gone.txt": b"bye\n"}


def picture(shade: int) -> bytes:
    """A gray PNG of 8 by 8."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + bytes([shade]) * 8 for _ in range(8))
    head = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


PICTURES = [picture(shade) for shade in (40, 120, 200)]


def sampled(number: int, parent: int, text: str, *calls: ToolCall, at: float) -> Node:
    ids = [100 + number, 7, 8, 9]
    logprobs = array.array("f", [-0.01, -3.5, float("nan"), -0.7]).tobytes()
    tokens = Tokens(ids=packed_ids(ids), logprobs=logprobs, mask=b"\1\1\0\1", versions=((2, 4), (2, 5)))
    message = Message(role=Role.ASSISTANT, parts=(Reasoning("I think."), Text(text), *calls))
    return Node(message=message, parent=parent, sampled=True, tokens=tokens, context=packed_ids([1, 2]), start_s=at, seconds=0.5)


def make_trace(rollout: int, turns: int, *, score: float) -> Trace:
    trace = Trace(run="made", task="made", rollout=rollout, seed=1, started=1_700_000_000.0)
    leaf = trace.append(Node(message=text_message(Role.USER, "go")))
    for turn in range(turns):
        command = f"echo {turn} of {rollout}" if turn else "ls"
        call = ToolCall(id=f"c{turn}", name="bash", arguments={"command": command})
        leaf = trace.append(sampled(turn, leaf, f"turn {turn}", call, at=1.0 + turn))
        text = ATTACK if turn == 0 else "x" * 9000 if turn == 1 else f"{turn}\x1b]0;owned\x07"
        images = (ImagePart(digest(PICTURES[turn % 3])),) if turn < 3 else ()
        result = ToolResult(call=f"c{turn}", text=text, error=turn == 2, images=images)
        leaf = trace.append(Node(message=Message(role=Role.TOOL, parts=(result,)), parent=leaf))
    said = f"done by {rollout}: mail {ADDRESS}, key {SECRET}"
    trace.append(sampled(turns, leaf, said, at=1.0 + turns))
    trace.end = End.DONE
    met = CheckResult(id="said", verdict=CheckVerdict.MET, value=1.0, points=1.0, worth=1.0, evidence=ATTACK)
    other = CheckResult(id=ATTACK, verdict=CheckVerdict.NOT_MET if score < 1 else CheckVerdict.MET, value=0, points=0, worth=1)
    trace.outcome = Scored(RubricScore(points=score, possible=1, value=score, checks=(met, other)))
    trace.phases = {"open": 0.9, "model": 2.0, "tools": 3.0, "grade": 0.25}
    files = {path: FileRecord(size=len(data), blob=digest(data)) for path, data in FILES.items()}
    files["/work/same.txt"] = FileRecord(size=5, blob=digest(FOUND["/work/same.txt"]))
    initial = {path: FileRecord(size=len(data), blob=digest(data)) for path, data in FOUND.items()}
    trace.evidence = EvidenceRecord(answer=said, files=files, initial=initial)
    return trace


def make_run(place: Path, *, turns: int = 3) -> Path:
    """A run named `desk <b>` with four rollouts of the task `made`; the third has 300 turns."""
    (place / "made.py").write_text(ENVIRONMENT)
    run = sandlot.run(place / "made.py", "scripted:noop", runs=place / "runs", group=1)
    path = run.path.rename(place / "runs" / "desk <b>")

    async def fill() -> None:
        async with open_run(path) as directory:
            for data in (*FILES.values(), FOUND["/work/same.txt"], FOUND["/work/gone.txt"], *PICTURES):
                await directory.blobs.put(data)
            for rollout, score in ((1, 1.0), (2, 0.5), (3, 0.0)):
                trace = make_trace(rollout, 300 if rollout == 3 else turns + rollout, score=score)
                await directory.add(trace, row_of(trace, split="train"))

    anyio.run(fill)
    return path
