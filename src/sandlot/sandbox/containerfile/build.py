"""Builds one Containerfile in a sandbox and stores the result: `python -m sandlot.sandbox.containerfile.build FILE KEY`.

Its own process, since a build needs an event loop and a sandbox of its own. The base is an image of Debian packages. Every `RUN`
runs in a native sandbox without network; `apt-get` and `pip` reach the packages of this machine's mirrors through the host
(`packages.py`), and nothing else can be reached. What the steps changed becomes one layer on the base.
"""

import hashlib
import io
import os
import posixpath
import re
import shlex
import stat
import sys
import tarfile
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from sandlot.core.disk import write_file
from sandlot.core.errors import ConfigError, SandlotError, unwrapped
from sandlot.core.ports.sandbox import Command, Completed
from sandlot.sandbox.changes import Change
from sandlot.sandbox.command import run_command
from sandlot.sandbox.containerfile.bases import Base, find_base
from sandlot.sandbox.containerfile.packages import ADDRESS, PORT, PackageServer
from sandlot.sandbox.containerfile.parse import LAYER_MARK, Instruction, expand, parse_containerfile, parse_list, parse_pairs
from sandlot.sandbox.images.byte_range import ByteRange
from sandlot.sandbox.images.folder import folder_digest
from sandlot.sandbox.images.spec import find_image, image_digest
from sandlot.sandbox.images.store import ImageAbout, Lease, keep
from sandlot.sandbox.images.unpack import Unpacking
from sandlot.sandbox.native.backend import open_native
from sandlot.sandbox.program import cache_folder
from sandlot.sandbox.quota import MIB, Quota

_QUOTA = Quota(memory_bytes=8192 * MIB, disk_bytes=6144 * MIB, inodes=600_000, cpus=2.0, pids=2048, open_files=4096)
_STEP_S = 900.0
_SHOWN = 1200
"""Characters of a failed step's output in the error."""
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
"""What `ADD` unpacks, by its name: to look inside would unpack it here."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_IGNORED = frozenset(("CMD", "ENTRYPOINT", "LABEL", "EXPOSE", "MAINTAINER", "STOPSIGNAL", "HEALTHCHECK", "VOLUME", "ARG"))
_REACH = {
    "http_proxy": ADDRESS,
    "https_proxy": ADDRESS,
    "HTTP_PROXY": ADDRESS,
    "HTTPS_PROXY": ADDRESS,
    "no_proxy": "127.0.0.1,localhost",
    "NO_PROXY": "127.0.0.1,localhost",
    "PIP_INDEX_URL": f"{ADDRESS}/simple",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "UV_INDEX_URL": f"{ADDRESS}/simple",
}
"""Only while building: how programs find packages, and how every other address is refused with its name."""
_OPEN = """
set -e
cp -a /etc/apt/sources.list /.sandlot-sources
mkdir -p /.sandlot-lists && for f in /etc/apt/sources.list.d/*; do [ -e "$f" ] && mv "$f" /.sandlot-lists/ || true; done
echo "deb {address}/debian {suite} main" > /etc/apt/sources.list
cat > /etc/apt/apt.conf.d/00sandlot <<'END'
APT::Sandbox::User "root";
Dpkg::Options {{ "--force-unsafe-io"; }};
Acquire::Languages "none";
Acquire::Retries "2";
END
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d
printf '#!/bin/sh\\necho "not added: $*"\\n' > /usr/local/sbin/add-apt-repository && chmod 755 /usr/local/sbin/add-apt-repository
"""
_OPEN_PYTHON = """
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
[ -e /usr/local/bin/python ] || ln -s /usr/bin/python3 /usr/local/bin/python
[ -e /usr/local/bin/pip ] || ln -s /usr/bin/pip3 /usr/local/bin/pip
for d in /usr/lib/python3/dist-packages/*.dist-info; do [ -e "$d/RECORD" ] || touch "$d/RECORD"; done  # pip can replace it
"""
_CLOSE = """
mv /.sandlot-sources /etc/apt/sources.list
for f in /.sandlot-lists/*; do [ -e "$f" ] && mv "$f" /etc/apt/sources.list.d/ || true; done
rm -rf /.sandlot-lists /etc/apt/apt.conf.d/00sandlot /usr/sbin/policy-rc.d /usr/local/sbin/add-apt-repository /root/.cache/pip
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb
"""


@dataclass(slots=True)
class _Stage:
    """The settings that instructions change, besides files."""

    base: Base
    env: dict[str, str]
    folder: str
    args: dict[str, str] = field(default_factory=dict[str, str])
    user: str = "root"
    shell: tuple[str, ...] = ("/bin/sh", "-c")
    notes: list[str] = field(default_factory=list[str])

    @property
    def variables(self) -> dict[str, str]:
        """What `$NAME` may stand for."""
        return {**self.args, **self.env}


async def build(file: Path, lease: Lease) -> ImageAbout:
    """Build a Containerfile into a draft of the store. `ConfigError` names the line that cannot be carried out."""
    head, mark, tail = (await anyio.Path(file).read_text()).partition(LAYER_MARK)
    instructions, later = parse_containerfile(head), parse_containerfile(tail, whole=False)
    stage = _first_stage([*instructions, *later])
    _refuse_early([*instructions, *later])
    below = stage.base.spec
    if mark:  # what stands before the mark is an image of its own, which other files share
        below = await anyio.to_thread.run_sync(_build_below, head)
        _take_settings(stage, below)
        instructions = later
    server = PackageServer()
    await server.open()
    async with open_native(quota=_QUOTA) as backend, backend.open(below) as sandbox:
        async with _packages(sandbox, server):
            await _shell(sandbox, _OPEN.format(address=ADDRESS, suite=stage.base.suite), "preparing the build")
            if stage.base.python and not mark:
                await _shell(sandbox, _OPEN_PYTHON, "preparing Python")
            await _shell(sandbox, f"mkdir -p {shlex.quote(stage.folder)}", "making the first folder")
            for instruction in instructions:
                try:
                    await _step(sandbox, instruction, stage, file.parent)
                except ConfigError as error:
                    asked = ", ".join(f"`{host}`" for host in server.refused)
                    raise ConfigError(f"{error}" + (f"; it asked for the network: {asked}" if asked else "")) from error
            await _shell(sandbox, _CLOSE, "ending the build")
        diff = await (await sandbox.freeze()).diff()
        await _store(sandbox, diff, lease.root)
    if server.refused:
        stage.notes.append("addresses asked for and refused: " + ", ".join(server.refused))
    base = image_digest(below)
    return ImageAbout(
        kind="containerfile",
        name=f"containerfile:{file.parent.name}/{file.name}",
        digest=f"containerfile:{base.rpartition(':')[2][:16]}:{folder_digest(lease.root)}",
        notes=tuple(dict.fromkeys((*stage.base.notes, *stage.notes))),
        base=below,
        env=tuple(f"{name}={value}" for name, value in stage.env.items()),
        user=stage.user,
        folder=stage.folder,
    )


def _build_below(head: str) -> str:
    """Build the first part of a Containerfile as an image of its own; its spec."""
    if re.search(r"^\s*(COPY|ADD)\s", head, re.MULTILINE | re.IGNORECASE):
        raise ConfigError(f"`COPY` and `ADD` must stand after `{LAYER_MARK}`: what stands before it has no folder of its own")
    head = "".join(f"{line}\n" for line in head.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    folder = cache_folder() / "containerfiles" / hashlib.sha256(head.encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "Containerfile", head.encode())
    spec = f"containerfile:{folder}"
    find_image(spec)
    return spec


def _take_settings(stage: _Stage, spec: str) -> None:
    """Go on with the settings that the image below ended with."""
    defaults = find_image(spec).defaults
    stage.env, stage.user, stage.folder = dict(defaults.env), defaults.user, defaults.folder


def _first_stage(instructions: list[Instruction]) -> _Stage:
    froms = [each for each in instructions if each.name == "FROM"]
    if len(froms) > 1:
        raise froms[1].refuse("a build of several stages is not supported")
    before = instructions[: instructions.index(froms[0])]
    args: dict[str, str] = {}
    for each in before:
        name, _, value = each.rest.partition("=")
        args[name.strip()] = expand(value.strip().strip("\"'"), args)
    base = find_base(expand(froms[0].words()[0], args))
    return _Stage(base, {"PATH": _PATH, **base.env}, base.folder, args)


def _refuse_early(instructions: list[Instruction]) -> None:
    """`ConfigError` for what cannot be carried out, before the minutes that a base takes."""
    for each in instructions:
        if each.name in {"COPY", "ADD"} and "from" in each.flags:
            raise each.refuse(f"copying from another image (`--from={each.flags['from']}`) is not supported")
        if each.name in {"COPY", "ADD"} and any(re.match(r"[a-z+]+://|git@", word) for word in each.words()[:-1]):
            raise each.refuse("it asks for the network, and an image is built without one")
        if each.name == "ONBUILD":
            raise each.refuse("not supported")


@asynccontextmanager
async def _packages(sandbox: Any, server: PackageServer) -> AsyncGenerator[None]:
    async with sandbox.listen(PORT) as connections, anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, connections)
        yield
        tasks.cancel_scope.cancel()


async def _step(sandbox: Any, instruction: Instruction, stage: _Stage, context: Path) -> None:
    """Carry out one instruction."""
    name = instruction.name
    if name == "ARG":
        key, _, value = instruction.rest.partition("=")
        stage.args.setdefault(key.strip(), expand(value.strip().strip("\"'"), stage.variables))
    elif name == "ENV":
        stage.env |= parse_pairs(instruction, stage.variables)
    elif name == "WORKDIR":
        place = expand(instruction.rest.strip().strip("\"'"), stage.variables)
        stage.folder = posixpath.normpath(posixpath.join(stage.folder, place))
        await _shell(sandbox, f"mkdir -p {shlex.quote(stage.folder)}", f"line {instruction.line}")
    elif name == "USER":
        stage.user = expand(instruction.rest.strip(), stage.variables).partition(":")[0]
    elif name == "SHELL":
        stage.shell = tuple(parse_list(instruction.rest)) or stage.shell
    elif name == "RUN":
        await _run(sandbox, instruction, stage)
    elif name in {"COPY", "ADD"}:
        await _copy(sandbox, instruction, stage, context)
    elif name in {"CMD", "ENTRYPOINT"}:
        stage.notes.append(f"`{name} {instruction.rest[:80]}` is not started: a sandbox starts with no process of its own")


async def _run(sandbox: Any, instruction: Instruction, stage: _Stage) -> None:
    if "mount" in instruction.flags:
        stage.notes.append(f"line {instruction.line}: `--mount` is ignored")
    for name in re.findall(r"\badd-apt-repository\s+(?:-\S+\s+)*([^\s;&|]+)", instruction.rest):
        stage.notes.append(f"line {instruction.line}: the repository {name} is not added: packages are Debian's")
    argv = tuple(parse_list(instruction.rest))
    stdin = b""
    if not argv:
        text = instruction.rest
        if instruction.documents and re.match(r"<<-?['\"]?\w+['\"]?\s*\Z", text):
            text = instruction.documents[0][1]
        elif instruction.documents:
            text += "".join(f"\n{body}{mark}" for mark, body in instruction.documents)
        argv = (*stage.shell, text)
    env = {"HOME": "/root" if stage.user in {"root", "0"} else "/", **stage.variables, **_REACH}
    command = Command(argv=argv, env=env, cwd=stage.folder, user=stage.user, stdin=stdin, output_bytes=1 << 20)
    done = await _completed(sandbox, command, instruction)
    if done.code:
        said = (done.stdout + done.stderr).strip()[-_SHOWN:]
        raise instruction.refuse(f"it ended with code {done.code}: {said}")


async def _completed(sandbox: Any, command: Command, instruction: Instruction) -> Completed:
    with anyio.move_on_after(_STEP_S) as scope:
        return await run_command(sandbox, command)
    assert scope.cancelled_caught
    raise instruction.refuse(f"it did not end within {_STEP_S:g} s")


async def _shell(sandbox: Any, text: str, what: str) -> None:
    done = await run_command(sandbox, Command(argv=("/bin/sh", "-c", text), env={"PATH": _PATH}, cwd="/", user="root"))
    if done.code:
        raise ConfigError(f"{what}: code {done.code}: {(done.stdout + done.stderr).strip()[-_SHOWN:]}")


async def _copy(sandbox: Any, instruction: Instruction, stage: _Stage, context: Path) -> None:
    """`COPY` and `ADD`: files of the folder with the Containerfile, or here-documents."""
    *sources, target = [expand(word, stage.variables) for word in instruction.words()]
    if not sources:
        raise instruction.refuse("write sources and a target")
    place = posixpath.normpath(posixpath.join(stage.folder, target))
    into = target.endswith("/") or target == "." or len(sources) > 1 or await _is_folder(sandbox, place)
    documents = dict(instruction.documents)
    packed, archives = io.BytesIO(), list[Path]()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for source in sources:
            if mark := re.fullmatch(r"<<-?['\"]?(\w+)['\"]?", source):
                _add_bytes(tar, posixpath.join(place, mark[1]) if into else place, documents[mark[1]].encode())
                continue
            if re.match(r"[a-z+]+://|git@", source):
                raise instruction.refuse("it asks for the network, and an image is built without one")
            for path in _sources(context, source, instruction):
                if instruction.name == "ADD" and path.is_file() and path.name.endswith(_ARCHIVES):
                    archives.append(path)
                else:
                    _add_path(tar, path, place, into=into, chmod=instruction.flags.get("chmod"))
    await _unpack(sandbox, packed.getvalue(), "/", instruction)
    for archive in archives:
        await _shell(sandbox, f"mkdir -p {shlex.quote(place)}", f"line {instruction.line}")
        await _unpack(sandbox, archive.read_bytes(), place, instruction)
    if owner := instruction.flags.get("chown"):
        await _shell(
            sandbox, f"chown -R {shlex.quote(expand(owner, stage.variables))} {shlex.quote(place)}", f"line {instruction.line}"
        )


async def _is_folder(sandbox: Any, place: str) -> bool:
    done = await run_command(sandbox, Command(argv=("/usr/bin/test", "-d", place), cwd="/", user="root"))
    return done.code == 0


async def _unpack(sandbox: Any, data: bytes, place: str, instruction: Instruction) -> None:
    argv = ("/bin/tar", "-x", "-f", "-", "-C", place, "--no-same-owner", "-p", "--keep-directory-symlink")
    done = await run_command(sandbox, Command(argv=argv, env={"PATH": _PATH}, cwd="/", user="root", stdin=data))
    if done.code:
        raise instruction.refuse(f"the files cannot be put there: {done.stderr.strip()[-_SHOWN:]}")


def _sources(context: Path, source: str, instruction: Instruction) -> list[Path]:
    """The paths below the context that a source names; `ConfigError` if there are none, or one leads out of it."""
    inside = posixpath.normpath("/" + source).lstrip("/") or "."
    top = context.resolve()
    if re.search(r"[*?[]", inside):
        found = sorted(context.glob(inside))
    else:
        found = [context / inside] if (context / inside).exists() or (context / inside).is_symlink() else []
    if not found:
        raise instruction.refuse(f"there is no `{source}` beside the Containerfile")
    for path in found:
        if not path.resolve().is_relative_to(top):
            raise instruction.refuse(f"`{source}` leads out of the folder with the Containerfile")
    return found


def _add_path(tar: tarfile.TarFile, path: Path, place: str, *, into: bool, chmod: str | None) -> None:
    """A file, or what is in a folder. Links that lead out of the folder were refused; those inside it stay links."""
    if path.is_dir() and not path.is_symlink():
        _add_folder(tar, place)
        for inner in sorted(path.rglob("*")):
            _add_one(tar, inner, posixpath.join(place, inner.relative_to(path).as_posix()), chmod)
    else:
        _add_one(tar, path, posixpath.join(place, path.name) if into else place, chmod)


def _add_one(tar: tarfile.TarFile, path: Path, name: str, chmod: str | None) -> None:
    about = path.lstat()
    if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode) or stat.S_ISLNK(about.st_mode)):
        raise ConfigError(f"`{path}` is a device, pipe or socket; only files, folders and links are copied")
    info = tar.gettarinfo(path, name.lstrip("/"))
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    if info.islnk():  # a hard link on the host: a file of its own here
        info.type, info.size = tarfile.REGTYPE, about.st_size
    if chmod and re.fullmatch(r"[0-7]{3,4}", chmod) and not info.issym():
        info.mode = int(chmod, 8)
    if info.isreg():
        with path.open("rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info)


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    info = tarfile.TarInfo(name.lstrip("/") or ".")
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(info)


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name.lstrip("/"))
    info.size, info.mode = len(data), 0o644
    tar.addfile(info, io.BytesIO(data))


async def _store(sandbox: Any, diff: Mapping[str, Change], root: Path) -> None:
    """Write what the build changed into a folder of the host, as a layer: files with owners and modes, and whiteouts."""
    there = {path for path, change in diff.items() if change.after in {"file", "folder", "link"}}
    gone = [path for path, change in diff.items() if change.after == "nothing" and change.before != "nothing"]
    for path in [*there, *gone]:
        there.update(_parents(path))
    wanted = [path for path in sorted(there) if not path.startswith(("/proc/", "/sys/", "/dev/"))]
    await sandbox.write("/.sandlot-layer", b"".join(b"./" + os.fsencode(path.lstrip("/")) + b"\0" for path in wanted))
    argv = ("/bin/tar", "-c", "-f", "-", "-C", "/", "--no-recursion", "--null", "--files-from=/.sandlot-layer", "--numeric-owner")
    process = await sandbox.spawn(Command(argv=argv, env={"PATH": _PATH}, cwd="/", user="root", stdin=b""))
    said: list[bytes] = []
    with tempfile.TemporaryFile() as packed:
        # Its programs are those of the image, which may write anything.
        with anyio.fail_after(_STEP_S):
            async for name, data in process.output():
                if name == "stdout":
                    packed.write(data)
                elif sum(map(len, said)) < 1 << 16:
                    said.append(data)
                if packed.tell() > 2 * _QUOTA.disk_bytes:
                    raise ConfigError(f"the layer is larger than {2 * _QUOTA.disk_bytes:,} bytes")
        if code := await process.wait():
            raise ConfigError(f"the layer cannot be packed: code {code}: {b''.join(said)[-_SHOWN:].decode(errors='replace')}")
        packed.flush()
        unpacking = Unpacking(root, keep_owners=os.geteuid() == 0)
        unpacking.add(ByteRange(packed.fileno(), 0, packed.tell()))
        for path in gone:
            _mark_deleted(root, path)
        unpacking.finish()


def _mark_deleted(root: Path, path: str) -> None:
    """As an overlay does. A folder of the layer may be a link to anywhere: nothing is made behind one."""
    place = root / path.lstrip("/")
    inside = place.parent.resolve() == root.resolve() / posixpath.dirname(path).lstrip("/")
    if inside and not place.exists() and not place.is_symlink() and place.parent.is_dir():
        os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))


def _parents(path: str) -> set[str]:
    found: set[str] = set()
    while (path := posixpath.dirname(path)) not in {"/", ""}:
        found.add(path)
    return found


def main() -> None:
    """Build, and print the error as JSON if there is one: the caller reports it."""
    file, key = Path(sys.argv[1]), sys.argv[2]
    try:
        lease = keep(key, lambda draft: anyio.run(build, file, draft))
        lease.release()
    except (SandlotError, OSError, TimeoutError, BaseExceptionGroup) as error:
        cause = unwrapped(error)
        if not isinstance(cause, SandlotError | OSError):
            raise
        sys.stdout.buffer.write(msgspec.json.encode({"error": str(cause)}) + b"\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
