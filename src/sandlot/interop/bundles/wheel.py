"""`sandlot pack ENV --wheel`: a folder environment as a Python package that registers it by name."""

import base64
import hashlib
import re
from pathlib import Path

from sandlot.core.disk import write_file
from sandlot.core.errors import ConfigError
from sandlot.env.folder import MANIFEST
from sandlot.env.load import load
from sandlot.interop.bundles.pack import environment_files, refuse_secrets, zip_bytes
from sandlot.interop.untrusted import read_bytes

_VERSION = re.compile(r"\d+(\.\d+){0,3}((a|b|rc)\d+)?\Z")


def write_wheel(what: str | Path, folder: str | Path, *, version: str = "1.0.0") -> Path:
    """Write a wheel of a folder environment, and return its path. After `pip install` it runs by its name.

    - `what`: the environment: a folder with `environment.toml`.
    - `folder`: where to write the wheel.
    - `version`: the version of the package.
    """
    if not _VERSION.match(version):
        raise ConfigError(f"{version!r} is not a version; write it like 1.0.0")
    env = load(what)
    if env.source is None or not (env.source / MANIFEST).is_file():
        raise ConfigError(
            f"`{what}` has no `{MANIFEST}`; only a folder environment becomes a wheel (docs/guides/share-an-environment.md)"
        )
    name = re.sub(r"[^a-z0-9]+", "_", env.name.lower()).strip("_")
    package = f"sandlot_env_{name}"
    target = Path(folder) / f"{package}-{version}-py3-none-any.whl"
    if target.exists():
        raise ConfigError(f"`{target}` already exists; give another --version")
    parts = {f"{package}/{each}": read_bytes(path) for each, path in environment_files(env).items()}
    parts.setdefault(f"{package}/__init__.py", b"")
    refuse_secrets(parts)
    about = f"{package}-{version}.dist-info"
    summary = " ".join(env.description.split()) or f"The environment {env.name}."
    parts[f"{about}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: {version}\nSummary: {summary[:500]}\n"
        "Requires-Python: >=3.11\nRequires-Dist: sandlot\n"
    ).encode()
    parts[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: sandlot\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    parts[f"{about}/entry_points.txt"] = f"[sandlot.environments]\n{env.name} = {package}\n".encode()
    parts = dict(sorted(parts.items()))
    record = "".join(f"{each},sha256={_hash(data)},{len(data)}\n" for each, data in parts.items())
    parts[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n".encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    write_file(target, zip_bytes(parts))
    return target


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
