"""Everything as an ordinary user: the process that opens sandboxes has no power either, not only the zygote.

The tests start themselves again as `nobody`, with a cache of their own, in a mount namespace in which `/etc/subuid` and
`/etc/subgid` are ours to write: the machine's own are left alone.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NOBODY = 65534
TESTS = Path(__file__).parents[1]
ENTER = (
    'mount --bind "$1/subuid" /etc/subuid; mount --bind "$1/subgid" /etc/subgid; cd "$1"; shift\n'
    f'exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --inh-caps=-all "$@"'
)
USERS = """
import anyio
from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.command import run_command
from sandlot.sandbox.native.backend import open_native

async def main():
    async with open_native() as backend:
        print((await backend.probe())["users"])
        async with backend.open("host") as sandbox:
            async def sh(script, user="root"):
                done = await run_command(sandbox, Command(argv=("sh", "-c", script), user=user))
                print(done.stdout.strip() or f"{done.code}: {done.stderr.strip()}")
            await sh("touch /tmp/theirs && chown 1000:1000 /tmp/theirs && stat -c %u:%g /tmp/theirs")
            await sh("id -u; id -g; echo mine > /tmp/theirs; cat /tmp/theirs", user="1000")
            await sh("echo no > /etc/hostname || echo refused", user="1000")
            snapshot = await sandbox.freeze()
            async with snapshot.fork() as fork:
                print((await fork.read("/tmp/theirs")).decode().strip(), (await fork.stat("/tmp/theirs")).uid)

anyio.run(main)
"""

pytestmark = [pytest.mark.system, pytest.mark.core, pytest.mark.timeout(300)]


@pytest.fixture
def place():
    """A folder of nobody's, reachable from the root."""
    folder = Path(f"/tmp/sandlot-nobody-{os.getpid()}")
    folder.mkdir(mode=0o755)
    for name in ("subuid", "subgid"):
        (folder / name).touch()
        Path("/etc", name).touch()
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def as_nobody(place: Path, *argv: str) -> str:
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(place),
        "XDG_CACHE_HOME": str(place / "cache"),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(place / "hypothesis"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    enter = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", ENTER, "sh", str(place), sys.executable, *argv]
    done = subprocess.run(enter, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout


def lend(place: Path, name: str = "nobody") -> None:
    for file in ("subuid", "subgid"):
        (place / file).write_text(f"{name}:700000:65536\n")


@pytest.mark.parametrize("lent", [False, True])
def test_the_contract_holds_for_an_ordinary_user(place: Path, lent: bool):
    if lent:
        lend(place)
    suites = [str(TESTS / "contract" / f"test_{name}_contract.py") for name in ("sandbox", "machine_backend")]
    chosen = ["-m", "not system", "-k", "not ordinary and not local"]
    said = as_nobody(place, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, *suites)
    assert set(said.split()[0]) == {"."}


def test_seats_of_an_ordinary_user_are_kept_apart(place: Path):
    lend(place)
    said = as_nobody(place, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(TESTS / "unit/test_seat_sandboxes.py"))
    assert set(said.split()[0]) == {"."}


def test_with_lent_ids_an_ordinary_user_has_users_inside(place: Path):
    lend(place)
    probe, owner, *rest = as_nobody(place, "-c", USERS).splitlines()
    assert probe.startswith("yes: 65536 ids")
    assert owner == "1000:1000"
    assert rest == ["1000", "1000", "mine", "refused", "mine 1000"]


def test_without_lent_ids_there_is_one_user_and_doctor_says_why(place: Path):
    probe, owner, *_ = as_nobody(place, "-c", USERS).splitlines()
    assert probe.startswith("no: one id")
    assert "no ids for nobody in /etc/subuid: `usermod --add-subuids" in probe
    assert "Invalid argument" in owner


def test_ids_that_newuidmap_refuses_leave_one_user(place: Path):
    (place / "subuid").write_text("nobody:700000:65536\n")
    (place / "subgid").write_text("nobody:700000:65536\n")
    (place / "subgid").chmod(0o600)  # ours to read as root, not theirs: only the users can be mapped
    probe, *_ = as_nobody(place, "-c", USERS).splitlines()
    assert probe.startswith("no: one id")
