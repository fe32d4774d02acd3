"""Docker sandboxes on a real engine: what the contract suite, which runs against it too, does not ask of every backend."""

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from drive.native_sandboxes import py, sh
from fakes.docker_engine import EMPTY_IMAGE, IMAGE, docker
from sandlot.core.errors import ConfigError, SandboxError, SandboxOutOfMemory
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.docker.api import DockerApi, open_docker_api
from sandlot.sandbox.docker.backend import open_docker
from sandlot.sandbox.owner import owner_labels
from sandlot.sandbox.quota import MIB, Quota

pytestmark = pytest.mark.system

MANY = """
import anyio, sys
from contextlib import AsyncExitStack
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.docker.backend import open_docker

async def main():
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(open_docker(sys.argv[1]))
        for _ in range(4):
            sandbox = await stack.enter_async_context(backend.open(sys.argv[2]))
            await sandbox.spawn(Command(argv=("sleep", "1000")))
        print("up", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""

ENVIRONMENT = """
from sandlot import Environment, Task

env = Environment("shouting", image="sandlot-test")

@env.tasks
def tasks(rng):
    yield Task("one", prompt="Write HELLO into /out/word.")

@env.tool
async def bash(world, command: str) -> str:
    '''Run a shell command.'''
    return (await world.exec(command)).stdout

@env.check(points=1)
def is_loud(evidence, task) -> bool:
    return evidence.read_text("/out/word").strip() == "HELLO"

@env.solution
async def solve(agent, task):
    await agent.call("bash", command="mkdir /out; echo HELLO > /out/word")
    await agent.say("done")
"""


@pytest.fixture
async def backend(docker_socket):
    with anyio.fail_after(120):
        async with open_docker(docker_socket) as opened:
            yield opened


@pytest.fixture
async def sandbox(backend):
    async with backend.open(IMAGE) as opened:
        yield opened


STATES = ("created", "restarting", "running", "paused", "exited", "dead")
"""All but `removing`: the engine takes its time over a container with many files, and a test before may have left it one."""


def made(socket, *words):
    return docker(socket, "ps", "-aq", *(f"--filter=status={state}" for state in STATES), *words).split()


async def none_left(socket):
    with anyio.fail_after(20):
        while made(socket):  # noqa: ASYNC110 - the engine sets no event
            await anyio.sleep(0.1)


async def test_killing_sandlot_leaves_nothing_at_the_engine(docker_socket):
    command = [sys.executable, "-c", MANY, docker_socket, IMAGE]
    sandlot = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: ASYNC220 - killed below
    with sandlot:
        try:
            assert await anyio.to_thread.run_sync(sandlot.stdout.readline) == b"up\n"
            assert len(made(docker_socket)) == 4
        finally:
            sandlot.kill()
    await none_left(docker_socket)


async def test_what_a_dead_sandlot_left_is_removed_and_nothing_else(docker_socket):
    living, dead = owner_labels(), owner_labels() | {"sandlot.started": "1"}
    elsewhere = dead | {"sandlot.pid_namespace": "pid:[1]"}
    numbers = {}
    async with open_docker_api(docker_socket) as api:
        for name, labels in {"living": living, "dead": dead, "elsewhere": elsewhere, "foreign": {}}.items():
            numbers[name] = await api.create({"Image": EMPTY_IMAGE, "Cmd": ["x"], "Labels": labels})
        image = await api.commit(numbers["dead"])
        async with open_docker(docker_socket):
            left = set(made(docker_socket, "--no-trunc"))
            assert await api.image(image) is None
        for number in numbers.values():
            await api.remove(number)
    assert left == {numbers["living"], numbers["elsewhere"], numbers["foreign"]}


async def test_forks_leave_no_image_behind(backend, docker_socket):
    before = sorted(docker(docker_socket, "images", "-aq").split())
    async with backend.open(IMAGE) as sandbox:
        await sandbox.write("/f", b"1")
        snapshot = await sandbox.freeze()
        async with snapshot.fork() as child:
            await child.write("/g", b"2")
            middle = await child.freeze()
            grandchild = middle.fork()
            opened = await grandchild.__aenter__()
        assert await opened.read("/f") + await opened.read("/g") == b"12"
        assert await (await opened.freeze()).list() == {"/f": 1, "/g": 1}
        await grandchild.__aexit__(None, None, None)
    assert sorted(docker(docker_socket, "images", "-aq").split()) == before
    await backend.settle(0)


async def test_memory_processes_and_open_files_are_limited(docker_socket):
    quota = Quota(memory_bytes=128 * MIB, disk_bytes=64 * MIB, pids=32, open_files=100)
    async with open_docker(docker_socket, quota=quota) as backend, backend.open(IMAGE) as sandbox:
        assert (await py(sandbox, "b = bytearray(b'x') * (512 << 20)")).code == -9
        assert "fork" in (await sh(sandbox, "for i in $(seq 60); do sleep 5 & done", output_bytes=4000)).stderr
        assert (await sh(sandbox, "ulimit -n")).stdout == "100\n"
        assert (await sh(sandbox, "echo alive")).stdout == "alive\n"


async def test_processor_time_is_limited(docker_socket):
    spin = "import time; t = time.monotonic()\nwhile time.monotonic() - t < 1: pass\nprint(time.process_time())"
    async with open_docker(docker_socket, quota=Quota(cpus=0.2)) as backend, backend.open(IMAGE) as sandbox:
        assert float((await py(sandbox, spin)).stdout) < 0.5


@pytest.mark.core
async def test_power_is_taken_away(sandbox):
    status = (await sh(sandbox, "cat /proc/self/status")).stdout
    assert "CapBnd:\t00000000000404fb" in status
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    assert (await sh(sandbox, "ls /sys/class/net")).stdout == "lo\n"
    refused = (
        "import os, ctypes; libc = ctypes.CDLL(None); print(libc.unshare(0x10000000), libc.mount(b'x', b'/mnt', b'tmpfs', 0, 0))"
    )
    assert (await py(sandbox, refused)).stdout == "-1 -1\n"


@pytest.mark.core
async def test_the_pipes_to_the_host_are_out_of_reach(sandbox):
    forge = "for f in 0 1 2 3 4 5; do echo forged > /proc/1/fd/$f; done; cat /proc/1/environ /proc/1/mem; ls -l /proc/self/fd"
    done = await sh(sandbox, forge)
    assert done.stderr.count("Permission denied") >= 6
    assert "pipe" in done.stdout
    assert (await sh(sandbox, "kill -9 1; kill -TERM 1; echo alive")).stdout == "alive\n"


async def test_files_the_engine_mounts_are_evidence_too(sandbox):
    assert (await sh(sandbox, "cat /etc/hosts /etc/resolv.conf")).stdout == "127.0.0.1 localhost sandbox\n::1 localhost\n"
    await sh(sandbox, "echo 10.0.0.1 db >> /etc/hosts; touch /etc/hostname")
    snapshot = await sandbox.freeze()
    assert await snapshot.list() == {"/etc/hosts": 54}
    change = (await snapshot.diff())["/etc/hosts"]
    assert (change.before, change.size_before, change.size) == ("file", 42, 54)
    async with snapshot.fork() as fork:
        assert b"10.0.0.1 db" in await fork.read("/etc/hosts")


@pytest.mark.parametrize("engine_tells_where", [True, False])
async def test_odd_names_deep_folders_and_replaced_ones_are_found(sandbox, monkeypatch, engine_tells_where):
    if not engine_tells_where:  # as to a user who is not root: only the engine may look into its folders

        async def upper_folder(self, container):
            return None

        monkeypatch.setattr(DockerApi, "upper_folder", upper_folder)
    await py(
        sandbox,
        "import os; os.makedirs(b'/o\\xff/\\xfe\\xfd'); open(b'/o\\xff/\\xfe\\xfd/\\n', 'w').write('hi')\n"
        "open('/o\\ufffd', 'w').write('text')\n"
        "os.rename('/etc/passwd', '/etc/was'); os.mkdir('/etc/passwd'); open('/etc/passwd/in', 'w')\n"
        "os.remove('/etc/group'); os.symlink('/etc', '/etc/group'); os.chdir('/')\n"
        "for _ in range(60): os.mkdir('d' * 200); os.chdir('d' * 200)",
    )
    snapshot = await sandbox.freeze()
    found = await snapshot.list()
    assert {b"/o\xff/\xfe\xfd/\n": 2, "/o\ufffd".encode(): 4, b"/etc/passwd/in": 0}.items() <= {
        path.encode(errors="surrogateescape"): size for path, size in found.items()
    }.items()
    assert "/etc/was" in found
    changes = await snapshot.diff()
    assert (changes["/etc/passwd"].before, changes["/etc/passwd"].after) == ("file", "folder")
    assert (changes["/etc/group"].before, changes["/etc/group"].after) == ("file", "link")
    assert "/etc/shells" not in changes


async def test_a_pooled_sandbox_that_died_is_not_given_out(docker_socket):
    async with open_docker(docker_socket, pool=1) as backend:
        await backend.warm(IMAGE)
        docker(docker_socket, "kill", *made(docker_socket))
        await backend.settle(0)
        async with backend.open(IMAGE) as sandbox:
            assert (await sh(sandbox, "echo fresh")).stdout == "fresh\n"


async def test_a_sandbox_ended_from_outside_is_an_infrastructure_failure(backend, docker_socket):
    async with backend.open(IMAGE) as sandbox:
        process = await sandbox.spawn(Command(argv=("sleep", "1000")))
        docker(docker_socket, "kill", *made(docker_socket))
        with pytest.raises(SandboxError, match="died"):
            await process.wait()


async def test_an_image_needs_nothing_in_it(backend):
    async with backend.open(EMPTY_IMAGE) as sandbox:
        await sandbox.write("/data/x", b"1")
        assert await (await sandbox.freeze()).list() == {"/data/x": 1}


async def test_what_an_image_sets_in_its_environment_is_seen_below_the_commands_own(backend, docker_socket):
    docker(docker_socket, "import", "-c", "ENV COLOUR=red SIZE=big", "-", "sandlot-test-env", stdin=_tar_of(docker_socket))
    async with backend.open("sandlot-test-env") as sandbox:
        assert (await sh(sandbox, "echo $COLOUR $SIZE $HOME", env={"SIZE": "small"})).stdout == "red small /root\n"


async def test_an_image_with_volumes_is_refused(backend, docker_socket):
    docker(docker_socket, "import", "-c", "VOLUME /data", "-", "sandlot-test-volume", stdin=_tar_of(docker_socket))
    with pytest.raises(ConfigError, match="declares volumes"):
        async with backend.open("sandlot-test-volume"):
            pass


def _tar_of(socket):
    (number,) = docker(socket, "create", IMAGE, "x").split()
    done = subprocess.run(["docker", "-H", f"unix://{socket}", "export", number], capture_output=True, check=True)
    docker(socket, "rm", number)
    return done.stdout


@pytest.mark.parametrize("name", ["host", "/srv/root", "./root"])
async def test_a_folder_is_no_image_of_an_engine(backend, name):
    with pytest.raises(ConfigError, match="docker import"):
        async with backend.open(name):
            pass


async def test_an_unknown_image_is_answered_with_those_there_are(backend):
    with pytest.raises(ConfigError, match=r"it has: .*sandlot-test:latest"):
        async with backend.open("sandlot-nothing"):
            pass


def test_an_environment_runs_with_docker_from_the_command_line(docker_socket, tmp_path: Path):
    (tmp_path / "shouting.py").write_text(ENVIRONMENT)
    command = [
        *("-m", "sandlot", "run", "shouting.py", "--model", "scripted:golden", "--json"),
        "--sandbox",
        f"docker:{docker_socket}",
    ]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert not made(docker_socket)


TINY = """
import os, signal
os.chmod("/tmp/tiny", 0o755)
open("/proc/self/oom_score_adj", "w").write("0")  # an engine's /proc lets a process be killed as late as process 1
while True:
    fd = os.memfd_create("held", 0)
    for _ in range(64):
        os.write(fd, bytes(128 << 10))
    pid = os.fork()
    if pid == 0:
        os.set_inheritable(fd, True)
        os.execv("/tmp/tiny", ["tiny"])
    os.close(fd)
    while not open(f"/proc/{pid}/comm").read().startswith("tiny"):
        pass
    os.kill(pid, signal.SIGSTOP)
"""


async def test_memory_that_runs_out_until_process_1_is_killed_is_named(docker_socket, tmp_path):
    (tmp_path / "tiny.c").write_text("void _start(void) { for (;;); }")
    command = ["cc", "-nostdlib", "-static", "-o", tmp_path / "tiny", tmp_path / "tiny.c"]
    await anyio.run_process([str(word) for word in command])
    quota = Quota(memory_bytes=128 * MIB, disk_bytes=64 * MIB)
    async with open_docker(docker_socket, quota=quota) as backend, backend.open(IMAGE) as sandbox:
        await sandbox.write("/tmp/tiny", (tmp_path / "tiny").read_bytes())
        with pytest.raises(SandboxOutOfMemory, match="used up its memory"):  # noqa: PT012 - whichever step ends it
            for number in range(7):
                await py(sandbox, TINY)
                await sandbox.write(f"/dev/shm/{number}", bytes(8 * MIB))


FOLDERS = """
import os
os.mkdir("/many")
for number in range(25_000):
    os.mkdir(f"/many/{number}")
"""

LONG_PATHS = """
import os
for _ in range(12):
    os.mkdir("x" * 230)
    os.chdir("x" * 230)
for number in range(24_000):
    os.close(os.open("x" * 230 + str(number), os.O_CREAT))
"""


@pytest.mark.parametrize("script", [FOLDERS, LONG_PATHS])
async def test_what_an_agent_left_is_never_too_much_to_be_listed(sandbox, script):
    await sandbox.write("/near", b"1")
    assert (await py(sandbox, script)).code == 0
    found = await (await sandbox.freeze()).survey()
    assert found.left_out > 1000
    assert found.sizes["/near"] == 1
