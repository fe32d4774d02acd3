"""Source distributions from the package index that `pip` is set up with.

They are fetched as files. `pip download` would run the build backend of a source distribution to learn its metadata; nothing of a
foreign package runs outside a sandbox here.
"""

import functools
import hashlib
import html
import os
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandlot.core.errors import ConfigError

MAX_BYTES = 64 * 2**20
"""Largest page or distribution that is fetched."""
_TIMEOUT_S = 60.0
_LINK = re.compile(r"<a\b[^>]*href=[\"']([^\"']+)[\"'][^>]*>", re.IGNORECASE)
_SUFFIXES = (".tar.gz", ".zip", ".tar.bz2", ".tgz")
_VERSION = re.compile(r"\d+(\.\d+)*\Z")
_DEFAULT = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A source distribution that an index offers."""

    version: str
    url: str
    sha256: str
    """Empty if the index names none."""


def normalized(name: str) -> str:
    """A package's name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def source_files(name: str) -> list[IndexFile]:
    """The source distributions of a package's final releases, oldest first. `ConfigError` if there are none."""
    found: dict[str, IndexFile] = {}
    indexes = _indexes()
    if not indexes:
        raise ConfigError(
            f"package `{name}`: no package index is known, since {sys.executable} has no pip; install it, or set PIP_INDEX_URL"
        )
    for index in indexes:
        for file in _listed(name, index):
            found.setdefault(file.version, file)
    if not found:
        raise ConfigError(f"package `{name}`: none of {len(indexes)} package indexes has a source distribution of it")
    return sorted(found.values(), key=lambda file: _ordered(file.version))


def fetch_source(name: str, version: str, folder: Path) -> Path:
    """Download the source distribution of one version. `ConfigError` if there is none or its hash is wrong."""
    files = {file.version: file for file in source_files(name)}
    if version not in files:
        raise ConfigError(f"package `{name}`: no source distribution of {version}; there are: {', '.join([*files][-8:])}")
    file = files[version]
    data = _read(file.url)
    if file.sha256 and hashlib.sha256(data).hexdigest() != file.sha256:
        raise ConfigError(f"package `{name}` {version}: the downloaded file has another hash than the index names")
    path = folder / os.path.basename(urllib.parse.urlsplit(file.url).path)  # noqa: PTH119 - a part of an address
    path.write_bytes(data)
    return path


@functools.cache
def _indexes() -> list[str]:
    """The addresses that `pip` would ask."""
    named = [os.environ.get("PIP_INDEX_URL", "") or _configured("global.index-url") or _answer("-c", _DEFAULT)]
    named += (os.environ.get("PIP_EXTRA_INDEX_URL", "") or _configured("global.extra-index-url")).split()
    return [name.rstrip("/") for name in named if name]


def _configured(key: str) -> str:
    return _answer("-m", "pip", "config", "get", key)


def _answer(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)  # noqa: S603 - our own
    return done.stdout.strip() if done.returncode == 0 else ""


def _listed(name: str, index: str) -> Iterator[IndexFile]:
    address = f"{index}/{normalized(name)}/"
    if address.startswith("file:"):
        address += "index.html"
    try:
        page = _read(address).decode("utf-8", "replace")
    except ConfigError:
        return
    for link in _LINK.findall(page):
        url, _, fragment = html.unescape(urllib.parse.urljoin(address, link)).partition("#")
        file = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
        suffix = next((each for each in _SUFFIXES if file.endswith(each)), None)
        if suffix is None:
            continue
        stem, _, version = file.removesuffix(suffix).rpartition("-")
        if normalized(stem) == normalized(name) and _VERSION.match(version):
            yield IndexFile(version, url, fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else "")


def _read(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - an address of pip's configuration
            data: bytes = answer.read(MAX_BYTES + 1)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise ConfigError(f"{url}: {error}") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{url}: more than {MAX_BYTES >> 20} MiB")
    return data


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
