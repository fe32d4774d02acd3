"""What an agent does to its own world is graded: it never becomes a failure of the sandbox, which would be tried again."""

import pytest

from drive.native_sandboxes import KINDS, backend_of
from sandlot.core.limits import Limits
from sandlot.core.task import Task
from sandlot.core.trace import Message, Node, Scored, Text, ToolCall
from sandlot.core.trace_row import row_of
from sandlot.core.types import End, Role
from sandlot.env.environment import Environment
from sandlot.harness.tool_loop import ToolLoop
from sandlot.rollout import run_rollout
from sandlot.sandbox.quota import MIB, Quota
from sandlot.store.blobs import MemoryBlobs
from sandlot.store.directory import open_run

TASK = Task("one", prompt="Write 42 to /out/answer.")
SMALL = Quota(
    memory_bytes=192 * MIB, disk_bytes=16 * MIB, inodes=3000, pids=24, open_files=128, cpus=1.0, listing_bytes=64 * 1024
)


def asks_for_a_file(**limits) -> Environment:
    env = Environment("asks", image="host", limits=Limits(**{"tool_s": 5.0, "evidence_files": 1000} | limits))

    @env.check(points=1)
    def right(evidence):
        return evidence.read_text("/out/answer").strip() == "42"

    return env


class Commands:
    """Policies that run these shell commands, one a turn, and then say they are done."""

    name = "commands"

    def __init__(self, *commands, answer="done"):
        self.commands = commands
        self.answer = answer

    def policy(self, task, seed, rollout=0):
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        return None

    async def turn(self, trace, leaf, tools):
        number = trace.num_turns
        part = (
            ToolCall(f"c{number}", "bash", {"command": self.commands[number]})
            if number < len(self.commands)
            else Text(self.answer)
        )
        return Node(message=Message(role=Role.ASSISTANT, parts=(part,)), parent=leaf, sampled=True, stop="stop")


async def played(backend, env, policies, blobs=None):
    from sandlot.wiring.parts import Grading, RolloutParts

    parts = RolloutParts(grading=Grading(env=env, backend=backend), policies=policies, harness=ToolLoop())
    return await run_rollout(parts, TASK, run="test", rollout=0, blobs=blobs or MemoryBlobs())


def python(script: str) -> str:
    return f"/usr/bin/python3 - <<'END'\n{script}\nEND"


WORLDS = {
    "more paths than a listing holds": python(
        "import os\nfor n in range(600):\n d='/f/'+'x'*200+'/'+'y'*200; os.makedirs(d,exist_ok=True); open(f'{d}/{n}','w')"
    ),
    "more files than are recorded": python("import os\nos.mkdir('/f')\nfor n in range(1500): open(f'/f/{n}','w')"),
    "more folders than are recorded": python("import os\nfor n in range(1500): os.makedirs(f'/f/{n}')"),
    "names that are no text": python(
        "import os\nos.mkdir('/f')\n"
        "for n in (b'\\xff', b'\\xed\\xa0\\x80', b'a\\nb', b'\\x1b[2J', b'\\\\udcff'): open(b'/f/'+n,'w')"
    ),
    "folders without end": python("import os\nfor n in range(700):\n os.mkdir('d'); os.chdir('d')\n open('f','w')"),
    "pipes, sockets and links in circles": python(
        "import os,socket\nos.mkdir('/out'); os.mkfifo('/out/answer'); os.symlink('loop','/out/loop')\n"
        "os.symlink('/','/out/root'); os.symlink('/nowhere','/out/gone'); socket.socket(socket.AF_UNIX).bind('/out/socket')"
    ),
    "a huge sparse file": "mkdir /out; truncate -s 200G /out/answer || truncate -s 15M /out/answer",
    "unreadable files": "mkdir /out; echo 41 > /out/answer; chmod 0 /out/answer /out; chmod 0 /",
    "a full disk": "mkdir /out; dd if=/dev/zero of=/out/answer bs=1M count=100",
    "no inode left": python("import os\nos.mkdir('/f')\ntry:\n for n in range(4000): open(f'/f/{n}','w')\nexcept OSError: pass"),
    "no process left": python(
        "import os,time\ntry:\n"
        " while True:\n  if os.fork() == 0: os.setsid(); [os.close(n) for n in (0, 1, 2)]; time.sleep(1000)\n"
        "except OSError: pass"
    ),
    "kills everything": "kill -9 -1; kill -9 1; kill -SEGV 1; kill -STOP 1",
    "files that change while they are gathered": (
        "mkdir /out; (while :; do echo x >> /out/answer; mv /out/answer /out/b; mv /out/b /out/answer; done) &"
    ),
    "no shell left": "rm -f $(readlink -f /bin/sh) /bin/sh /usr/bin/sh",
    "times before the epoch": "mkdir /out; echo 41 > /out/answer; touch -d 1800-01-01 /out/answer; touch -d 2400-01-01 /out",
    "shared memory filled": "head -c 100M /dev/zero > /dev/shm/x; head -c 100M /dev/zero > /tmp/x",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS)
async def test_whatever_the_agent_left_is_graded(kind, world):
    async with backend_of(kind, quota=SMALL) as backend:
        trace = await played(backend, asks_for_a_file(), Commands(WORLDS[world], "echo still here"))
    assert isinstance(trace.outcome, Scored), trace.outcome
    assert (trace.end, trace.reward) == (End.DONE, 0.0)


NAMES = (
    "import os\nos.makedirs('/many', exist_ok=True)\nos.chdir('/many')\n"
    "while True: os.close(os.open('x' * 240 + os.urandom(5).hex(), os.O_CREAT))"
)


async def test_an_agent_that_fills_the_memory_is_graded_by_what_it_wrote_before():
    quota = Quota(memory_bytes=36 * MIB, disk_bytes=4 * MIB, inodes=30_000)
    commands = ["mkdir /out; echo 42 > /out/answer", *[python(NAMES)] * 3]
    async with backend_of("root", quota=quota) as backend:
        trace = await played(backend, asks_for_a_file(evidence_files=100), Commands(*commands))
    assert isinstance(trace.outcome, Scored), trace.outcome
    assert trace.end in {End.DONE, End.MEMORY_LIMIT}
    assert (trace.reward, trace.evidence.lost) == (1.0, "")
    assert trace.evidence.left_out > 1000
    assert [event.kind for event in trace.events if event.kind == "evidence_cut"] == ["evidence_cut"]


@pytest.mark.parametrize("answer", ["\ud800", "a\udfffb", "\x00", "\x1b[2J", "\u202e", "x" * 10**6])
async def test_an_answer_that_is_no_text_is_graded_and_stored(tmp_path, answer):
    env = Environment("says")
    env.check(points=1, id="right")(lambda evidence: evidence.answer == "42")
    async with open_run(tmp_path / "run", manifest=b'{"format": 1}') as store:
        trace = await played(None, env, Commands(answer=answer), store.blobs)
        await store.add(trace, row_of(trace, split="train"))
    assert isinstance(trace.outcome, Scored), trace.outcome
    assert trace.reward == 0.0
