"""Images: the read-only files a sandbox starts from, without a daemon or a download.

`host` is the machine's own `/usr` under a made-up root: an `/etc` of copied, world-readable, harmless files and nothing else
of the machine: no homes, no `/var`, no sockets, no secrets. It costs nothing to have and is not portable: its digest says what
it was made from. A path (absolute, or starting with `.`) is a folder that is a root file system as it lies there and must not
change while it is used, or an archive that `docker save` and its kin write (`archive.py`).
"""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sandlot.errors import ConfigError
from sandlot.sandbox.archive import unpack
from sandlot.sandbox.program import cache_folder

FORMAT = "1"
"""Part of every skeleton's name: change it when what a skeleton holds changes."""

ETC_KEPT = (
    *("alternatives", "bash.bashrc", "ca-certificates.conf", "debian_version", "fonts", "inputrc", "java*", "ld.so.cache"),
    *("ld.so.conf", "ld.so.conf.d", "libreoffice", "locale.alias", "locale.gen", "login.defs", "lsb-release", "magic"),
    *("mime.types", "nsswitch.conf", "os-release", "perl", "profile", "protocols", "python3*", "rpc", "services", "shells"),
    *("skel", "ssl/certs", "ssl/openssl.cnf", "terminfo"),
)
"""What of the machine's `/etc` programs need and nobody minds being read."""

FOLDERS = (
    *("dev", "etc", "home", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "usr"),
    *("var", "var/cache", "var/lib", "var/lock", "var/log", "var/tmp"),
)
"""Every root file system has these, whatever the image brings."""

USERS = (
    ("root", 0, "/root", "/bin/sh"),
    ("agent", 1000, "/home/agent", "/bin/sh"),
    ("nobody", 65534, "/nonexistent", "/usr/sbin/nologin"),
)


@dataclass(frozen=True, slots=True)
class Image:
    """Folders of the host to be stacked, topmost first, for each mount point."""

    name: str
    trees: tuple[tuple[str, tuple[Path, ...]], ...]
    portable: bool
    """False if another machine would not have the same bytes."""
    digest: str = ""
    """Of its configuration, if it came with one; `image_digest` finds out the others'."""


def find_image(name: str) -> Image:
    """The image a user named; makes what it needs in the cache."""
    if name == "host":
        return _host_image()
    if name.startswith(("/", ".")):
        folder = Path(name).resolve()
        if folder.is_file():
            return _archive_image(name, folder)
        if not folder.is_dir():
            raise ConfigError(f"image {name!r}: no folder or archive at {folder}")
        return Image(name=name, trees=(("/", (folder, _bare_skeleton())),), portable=True)
    raise ConfigError(f"no image named {name!r}; there are: `host`, or a folder or archive as `/path` or `./path`")


def image_digest(image: Image) -> str:
    """What it was made from, for the fingerprint. Reads every file of a folder; a package list stands for the host's `/usr`."""
    top = image.trees[0][1][0]
    if image.digest:
        return image.digest
    if image.portable:
        return folder_digest(top)
    packages = Path("/var/lib/dpkg/status")
    installed = hashlib.sha256(packages.read_bytes()).hexdigest() if packages.exists() else "unknown"
    return f"{image.name}:{folder_digest(top)}:{installed}"


def folder_digest(folder: Path) -> str:
    """One hash over every path, kind, mode and content below a folder. Owners and times are left out: copies should agree."""
    whole = hashlib.sha256()
    for path in _walk(folder):
        about = path.lstat()
        content = b""
        if stat.S_ISREG(about.st_mode):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
        elif stat.S_ISLNK(about.st_mode):
            content = os.fsencode(path.readlink())
        whole.update(os.fsencode(path.relative_to(folder)) + b"\0" + f"{about.st_mode:o}".encode() + b"\0" + content + b"\0")
    return f"sha256:{whole.hexdigest()}"


def _walk(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        inside = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    for entry in inside:
        yield folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name)


def _host_image() -> Image:
    sources = sorted({path for pattern in ETC_KEPT for path in Path("/etc").glob(pattern)})
    stamp = hashlib.sha256(FORMAT.encode())
    for source in sources:
        for path in (source, *(_walk(source) if source.is_dir() and not source.is_symlink() else ())):
            about = path.lstat()
            stamp.update(f"{path}\0{about.st_mode}\0{about.st_size}\0{about.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    tops = [Path(top) for top in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32") if Path(top).exists()]
    real = [top for top in tops if not top.is_symlink()]  # a machine without merged /usr has real folders here

    def fill(root: Path) -> None:
        _fill_bare(root)
        for top in tops:
            if top in real:
                (root / top.name).mkdir()
            else:
                (root / top.name).symlink_to(top.readlink())
        for source in sources:
            _copy(source, root / "etc" / source.relative_to("/etc"))
        _fill_etc(root / "etc")

    skeleton = _kept(f"host-{stamp.hexdigest()[:16]}", fill)
    trees = (("/", (skeleton,)), ("/usr", (Path("/usr"),)), *((str(top), (top,)) for top in real))
    return Image(name="host", trees=trees, portable=False)


def _archive_image(name: str, archive: Path) -> Image:
    unpacked = unpack(archive, cache_folder() / "images")
    return Image(name=name, trees=(("/", (*unpacked.layers, _bare_skeleton())),), portable=True, digest=unpacked.digest)


def _bare_skeleton() -> Path:
    return _kept(f"bare-{FORMAT}", _fill_bare)


def _fill_bare(root: Path) -> None:
    for folder in FOLDERS:
        (root / folder).mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "var/tmp").chmod(0o1777)
    (root / "root").chmod(0o700)


def _fill_etc(etc: Path) -> None:
    files = {
        "group": "".join(f"{name}:x:{number}:\n" for name, number, _, _ in USERS) + "tty:x:5:\n",
        "hostname": "sandbox\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "machine-id": "",
        "passwd": "".join(f"{name}:x:{number}:{number}::{home}:{shell}\n" for name, number, home, shell in USERS),
        "resolv.conf": "",
        "timezone": "Etc/UTC\n",
    }
    for name, content in files.items():
        (etc / name).write_text(content)
    (etc / "localtime").symlink_to("/usr/share/zoneinfo/UTC")
    (etc / "mtab").symlink_to("/proc/self/mounts")
    home = etc.parent / "home/agent"
    home.mkdir(mode=0o755)
    if os.geteuid() == 0:
        os.chown(home, 1000, 1000)


def _copy(source: Path, target: Path) -> None:
    """Links as links, folders and files if everybody may read them; everything else is left behind."""
    about = source.lstat()
    if stat.S_ISLNK(about.st_mode):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.readlink())
    elif not about.st_mode & stat.S_IROTH:
        return
    elif stat.S_ISDIR(about.st_mode):
        target.mkdir(parents=True, exist_ok=True)
        for inner in sorted(source.iterdir()):
            _copy(inner, target / inner.name)
    elif stat.S_ISREG(about.st_mode):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        os.utime(target, ns=(about.st_mtime_ns, about.st_mtime_ns))  # compiled files elsewhere remember it
        target.chmod(stat.S_IMODE(about.st_mode) & 0o755)


def _kept(name: str, fill: Callable[[Path], None]) -> Path:
    """A folder in the cache, made once: it appears whole or not at all, whoever else makes it at the same time."""
    folder = cache_folder() / "images" / f"{name}-{os.getuid()}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent))
    made.chmod(0o755)
    old = os.umask(0o022)
    try:
        fill(made)
    finally:
        os.umask(old)
    try:
        made.rename(folder)
    except OSError:  # another process was first; both made the same
        shutil.rmtree(made)
    return folder
