"""A Docker engine for tests: a `dockerd` of our own in a temporary folder, with an image made without a registry.

Nothing is installed here: `make test-system` runs `tests/install/docker.sh` first. The engine touches neither the machine's
own engine nor its network (no bridge, no iptables), and dies with the tests even when they are killed.
"""

import io
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from sandlot.sandbox.images.spec import find_image

IMAGE = "sandlot-test"
EMPTY_IMAGE = "sandlot-test-empty"
"""Nothing at all in it: what a sandbox needs, the agent brings."""

PACKAGES = (
    *("dash", "coreutils", "procps", "findutils", "hostname", "grep", "sed", "util-linux", "libc-bin"),
    *("python3-minimal", "libpython3.11-stdlib"),
)
_LEFT_OUT = ("/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/info", "/usr/share/lintian")


@contextmanager
def running_engine(*, own_network: bool = False) -> Generator[str]:
    """The socket of an engine that runs for as long as the context lasts.

    With `own_network` it has a network namespace, and a bridge that leads nowhere: builds need one.
    """
    program = shutil.which("dockerd") or shutil.which("dockerd", path="/usr/sbin:/sbin")
    assert program is not None, "no `dockerd` on this machine; tests/install/docker.sh installs Debian's docker.io"
    folder = Path(tempfile.mkdtemp(prefix="sandlot-docker-"))
    socket = folder / "docker.sock"
    command = [
        *("setpriv", "--pdeathsig", "TERM", *(("unshare", "--net") if own_network else ()), program),
        *("--host", f"unix://{socket}", "--data-root", folder / "data", "--exec-root", folder / "exec"),
        *("--pidfile", folder / "pid", "--iptables=false", *(() if own_network else ("--bridge=none",))),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        _wait_for(socket, process, folder / "log")
        docker(str(socket), "import", "-", IMAGE, stdin=image_tar())
        docker(str(socket), "import", "-", EMPTY_IMAGE, stdin=_empty_tar())
        yield str(socket)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def docker(socket: str, *words: str, stdin: bytes | None = None) -> str:
    """Run the engine's command-line program, which only tests use."""
    done = subprocess.run(["docker", "-H", f"unix://{socket}", *words], input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, f"docker {' '.join(words)}: {done.stderr.decode()}"
    return done.stdout.decode()


def _wait_for(socket: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while subprocess.run(["docker", "-H", f"unix://{socket}", "version"], capture_output=True, check=False).returncode:
        said = log.read_text(errors="replace")[-3000:]
        assert process.poll() is None, f"dockerd ended with {process.returncode}:\n{said}"
        assert time.monotonic() < end, f"dockerd does not answer after 60 s:\n{said}"
        time.sleep(0.1)


def image_tar() -> bytes:
    """The native `host` image's `/etc` and folders, and the files of a few of this machine's Debian packages."""
    data = io.BytesIO()
    (skeleton,) = next(folders for mountpoint, folders in find_image("host").trees if mountpoint == "/")
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.add(skeleton, arcname=".")
        for path in sorted(_package_files()):
            archive.add(path, arcname=str(path.relative_to("/")), recursive=False)
    return data.getvalue()


def _empty_tar() -> bytes:
    data = io.BytesIO()
    tarfile.open(fileobj=data, mode="w").close()
    return data.getvalue()


def _package_files() -> Iterator[Path]:
    # Not checked: a package that was removed but for its settings is known and has no files.
    listed = subprocess.run(["dpkg-query", "-L", *_closure()], capture_output=True, text=True, check=False)
    for line in set(listed.stdout.splitlines()):
        given = Path(line)
        if not line.startswith("/") or line.startswith(_LEFT_OUT) or not given.exists():
            continue
        path = given.parent.resolve() / given.name
        if path.is_relative_to("/usr") and (path.is_file() or path.is_symlink()):
            yield path


def _closure() -> list[str]:
    """The packages and all they depend on, as installed here."""
    found: dict[str, None] = {}
    waiting = list(PACKAGES)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        said = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Pre-Depends},${Depends}", name], capture_output=True, text=True, check=False
        )
        if said.returncode == 0:
            found[name] = None
            waiting += [word.split("|")[0].split("(")[0].strip().split(":")[0] for word in said.stdout.split(",") if word.strip()]
    return list(found)
