"""Reads what others wrote: folders, archives, rows. Everything has a limit, and nothing of it is executed or unpickled.

A refusal is a `ConfigError` that names the path and the reason, so that an importer can leave out one task and take the others.
"""

import hashlib
import os
import posixpath
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.sandbox.images.byte_range import ByteRange
from sandlot.sandbox.images.compression import decompress, is_compressed
from sandlot.sandbox.images.folder import folder_digest
from sandlot.sandbox.images.tar import TarEntry, TarKind, read_entries

MAX_FILE_BYTES = 256 * 2**20
_MAX_TREE_BYTES = 2 * 2**30
_MAX_TREE_FILES = 50_000
_MAX_DEPTH = 40
_MAX_ROW_BYTES = 64 * 2**20
_MAX_ROWS = 1_000_000
_PIECE = 1 << 20
NOT_CODE = frozenset({".git", "__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache"})
"""Names that are no code at any depth. Nothing below them is in a digest, nor in a copy that is served."""
_ENVIRONMENTS = (".venv", "venv")
_PICKLES = (".pkl", ".pickle", ".p", ".pt", ".pth", ".joblib", ".dill", ".npy", ".npz")
_PICKLE_STARTS = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))


@dataclass(slots=True)
class _Budget:
    """What may still be copied or unpacked."""

    what: str
    bytes_left: int = _MAX_TREE_BYTES
    files_left: int = _MAX_TREE_FILES
    names: set[str] = field(default_factory=set[str])
    """Lower-case names of the files so far: two that differ only in case would be one on other machines."""

    def take_file(self, name: str) -> None:
        """Count one more file."""
        self.files_left -= 1
        if self.files_left < 0:
            raise ConfigError(f"{self.what}: more than {_MAX_TREE_FILES:,} files")
        if name.count("/") > _MAX_DEPTH:
            raise ConfigError(f"{self.what}: `{name[:200]}` is more than {_MAX_DEPTH} folders deep")
        if name.lower() in self.names:
            raise ConfigError(f"{self.what}: two files have the name `{name[:200]}`")
        self.names.add(name.lower())

    def take_bytes(self, name: str, size: int) -> None:
        """Count bytes of a file."""
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise ConfigError(f"{self.what}: more than {_MAX_TREE_BYTES:,} bytes, at `{name[:200]}`")


def source_digest(source: str | Path) -> str:
    """A hash of the content of a file or folder. `ConfigError` if there is none."""
    path = Path(source)
    if path.is_dir():
        return folder_digest(path.resolve())
    if not path.is_file():
        raise ConfigError(f"there is no file or folder `{source}`")
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def read_bytes(path: Path, *, at_most: int = MAX_FILE_BYTES) -> bytes:
    """A regular file, which may not be a link, a pipe or a device. `ConfigError` if it is larger than `at_most` bytes."""
    with _open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(at_most + 1) if size <= at_most else b""
        if size > at_most or len(data) > at_most:
            raise ConfigError(f"`{path}` has {max(size, len(data)):,} bytes; at most {at_most:,} are read")
        return data


def read_end(path: Path, *, at_most: int) -> bytes:
    """The last bytes of a regular file, which may have any size."""
    with _open_regular(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - at_most))
        return file.read(at_most)


def _open_regular(path: Path) -> BinaryIO:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read: {error.strerror or error}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ConfigError(f"`{path}` is not a regular file")
    return os.fdopen(fd, "rb")


def read_text(path: Path, *, at_most: int = MAX_FILE_BYTES) -> str:
    """A regular file as UTF-8 text."""
    try:
        return read_bytes(path, at_most=at_most).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"`{path}` is not UTF-8 text: {error}") from error


def path_inside(folder: Path, name: str) -> Path:
    """The path of `name` below a folder; `ConfigError` if it leads out of it, or if a link is on the way."""
    parts = PurePosixPath(name).parts
    if not parts or parts[0] == "/" or ".." in parts or not name.isprintable():
        raise ConfigError(f"{name[:200]!r} is no path below `{folder}`")
    path = folder
    for part in parts:
        path /= part
        if path.is_symlink():
            raise ConfigError(f"`{path}` is a link; only files and folders are read")
    return path


def read_rows(path: Path, *, at_most: int = _MAX_ROWS) -> Iterator[Any]:
    """The values of a JSON Lines file, one per line. Blank lines are skipped; long lines and too many are refused."""
    refuse_pickle(path)
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_MAX_ROW_BYTES + 1), b""), 1):
            if len(line) > _MAX_ROW_BYTES:
                raise ConfigError(f"`{path}`, line {number}: more than {_MAX_ROW_BYTES:,} bytes")
            if number > at_most:
                raise ConfigError(f"`{path}` has more than {at_most:,} lines")
            if line.strip():
                try:
                    yield msgspec.json.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    raise ConfigError(f"`{path}`, line {number}: {error}") from error


def refuse_pickle(path: Path) -> None:
    """`ConfigError` for a file that only unpickling could read: that would run code of whoever wrote it."""
    if path.suffix.lower() in _PICKLES:
        raise ConfigError(f"`{path}` is a pickle: reading it could run any code; convert it to JSON Lines or Parquet first")
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(2)
        if start in _PICKLE_STARTS:
            raise ConfigError(f"`{path}` starts like a pickle: reading it could run any code; convert it first")


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder of regular files into `target`, which must not exist.

    Links, devices, pipes and sockets are refused, as are trees of absurd size or depth. Only the executable bit of modes is kept.
    """
    if source.is_symlink():
        raise ConfigError(f"`{source}` is not a folder")
    _copy_files(regular_files(source), source, target)


def copy_code(source: Path, target: Path) -> None:
    """Copy the files of a folder of code that `code_digest` reads, and no others, into `target`, which must not exist."""
    _copy_files(_code_files(source), source, target)


def _copy_files(files: Iterator[tuple[str, os.stat_result]], source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for name, about in files:
        if stat.S_ISDIR(about.st_mode):
            (target / name).mkdir()
            continue
        data = read_bytes(source / name)
        (target / name).write_bytes(data)
        (target / name).chmod(0o755 if about.st_mode & stat.S_IXUSR else 0o644)


def code_digest(folder: Path) -> str:
    """A hash of the files of a folder of code, without `.git`, an environment of Python at its top, and what tools write there.

    Links and devices are refused: what they lead to would not be in the hash.
    """
    whole = hashlib.sha256()
    for name, about in _code_files(folder):
        if stat.S_ISREG(about.st_mode):
            whole.update(os.fsencode(name) + b"\0" + hashlib.sha256(read_bytes(folder / name)).digest())
    return f"sha256:{whole.hexdigest()}"


def is_environment(folder: Path) -> bool:
    """True for an environment of Python, by its name and its `pyvenv.cfg`."""
    return folder.name in _ENVIRONMENTS and (folder / "pyvenv.cfg").is_file()


def _code_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    environments = {name for name in _ENVIRONMENTS if is_environment(folder / name)}
    return regular_files(folder, without=NOT_CODE, without_at_top=environments)


def regular_files(
    folder: Path, *, without: Container[str] = (), without_at_top: Container[str] = ()
) -> Iterator[tuple[str, os.stat_result]]:
    """The names of the files and folders below a folder in a stable order. Whatever has a name of `without` is passed over.

    `ConfigError` for links, devices, pipes and sockets, and for trees of absurd size or depth.
    """
    if not folder.is_dir():
        raise ConfigError(f"`{folder}` is not a folder")
    return _regular_files(folder, without, without_at_top)


def _regular_files(folder: Path, without: Container[str], without_at_top: Container[str]) -> Iterator[tuple[str, os.stat_result]]:
    budget = _Budget(f"folder `{folder}`")
    for path in _walk(folder, folder, without, without_at_top):
        name = path.relative_to(folder).as_posix()
        about = path.lstat()
        if not stat.S_ISDIR(about.st_mode):
            if not stat.S_ISREG(about.st_mode):
                raise ConfigError(f"`{path}` is {_kind(about.st_mode)}; it may hold only files and folders")
            budget.take_file(name)
            budget.take_bytes(name, about.st_size)
        yield name, about


def _walk(folder: Path, top: Path, without: Container[str], without_here: Container[str] = ()) -> Iterator[Path]:
    if len(folder.relative_to(top).parts) > _MAX_DEPTH:
        raise ConfigError(f"`{folder}` is more than {_MAX_DEPTH} folders deep")
    with os.scandir(folder) as entries:
        kept = (entry for entry in entries if entry.name not in without and entry.name not in without_here)
        inside = sorted(kept, key=lambda entry: os.fsencode(entry.name))
    for entry in inside:
        if not entry.name.isprintable():
            raise ConfigError(f"`{folder}` holds a file with the unusual name {entry.name!r}")
        yield folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name, top, without)


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISLNK, "a link"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for check, name in kinds if check(mode)), "a device")


def unpack(archive: Path, target: Path) -> None:
    """Unpack a `.zip` or a `.tar` (also compressed) into `target`, which must not exist.

    Names that leave the folder, links, devices, encrypted and damaged entries and absurd sizes are refused, and then nothing is
    left behind.
    """
    refuse_pickle(archive)
    read_bytes(archive, at_most=_MAX_TREE_BYTES) if archive.is_symlink() else None  # refuses a link
    if not archive.is_file():
        raise ConfigError(f"there is no archive `{archive}`")
    target.mkdir(parents=True)
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, target)
        else:
            _unpack_tar(archive, target)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _unpack_zip(archive: Path, target: Path) -> None:
    budget = _Budget(f"archive `{archive}`")
    try:
        with zipfile.ZipFile(archive) as source:
            for info in source.infolist():
                name = _safe_name(info.filename, budget.what)
                mode = info.external_attr >> 16
                if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFDIR}:
                    raise ConfigError(f"{budget.what}: `{name}` is {_kind(mode)}; only files and folders are unpacked")
                if info.is_dir():
                    _make_folder(target / name, budget.what)
                    continue
                budget.take_file(name)
                with source.open(info) as packed:
                    _write_pieces(iter(lambda: packed.read(_PIECE), b""), target, name, budget, executable=bool(mode & 0o100))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise ConfigError(f"{budget.what} cannot be unpacked: {error}") from error


def _unpack_tar(archive: Path, target: Path) -> None:
    budget = _Budget(f"archive `{archive}`")
    with archive.open("rb") as file, tempfile.TemporaryFile() as unpacked:
        data = ByteRange(file.fileno(), 0, os.fstat(file.fileno()).st_size)
        if is_compressed(data):
            for piece in decompress(data):
                budget.take_bytes("its decompressed data", len(piece))
                unpacked.write(piece)
            unpacked.flush()
            data = ByteRange(unpacked.fileno(), 0, unpacked.tell())
            budget.bytes_left = _MAX_TREE_BYTES
        for entry in read_entries(data):
            name = _safe_name(os.fsdecode(entry.name), budget.what)
            if entry.kind is TarKind.FOLDER:
                _make_folder(target / name, budget.what)
                continue
            if entry.kind is not TarKind.FILE:
                raise ConfigError(f"{budget.what}: `{name}` is a {entry.kind.value}; only files and folders are unpacked")
            if entry.size > sum(segment.length for segment in entry.segments):
                raise ConfigError(f"{budget.what}: `{name}` is a sparse file; only ordinary files are unpacked")
            budget.take_file(name)
            _write_pieces(_pieces(data, entry), target, name, budget, executable=bool(entry.mode & 0o100))


def _pieces(data: ByteRange, entry: TarEntry) -> Iterator[bytes]:
    for segment in entry.segments:
        yield from data.part(segment.at, segment.length).chunks()


def _write_pieces(pieces: Iterator[bytes], target: Path, name: str, budget: _Budget, *, executable: bool) -> None:
    path = target / name
    _make_folder(path.parent, budget.what)
    try:
        with path.open("xb") as file:
            for piece in pieces:
                budget.take_bytes(name, len(piece))
                file.write(piece)
    except FileExistsError as error:
        raise ConfigError(f"{budget.what}: `{name}` is in it twice, as a file and as a folder") from error
    path.chmod(0o755 if executable else 0o644)


def _make_folder(folder: Path, what: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{what}: `{folder.name}` cannot be made: {error.strerror}") from error


def _safe_name(name: str, what: str) -> str:
    """The name of an entry as a path below the target; `ConfigError` if it leads out of it."""
    normal = posixpath.normpath(name)
    if not name or name.startswith(("/", "\\")) or "\\" in name or normal.split("/")[0] == ".." or not name.isprintable():
        raise ConfigError(f"{what}: the entry {name[:200]!r} would be written outside of its folder, or has an unusual name")
    if len(name) > 1 and name[1] == ":":
        raise ConfigError(f"{what}: the entry {name[:200]!r} names a drive")
    return normal
