"""`sandlot unpack`: checks a bundle and writes its environment as a folder. Nothing of it is loaded or run.

The manifest must name every file with its size and hash, and nothing else may be there. That shows damage and careless changes;
only a hash of the whole file that came another way (`--sha256`) shows that it is the one that was meant.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path

import msgspec

from sandlot.core.disk import replace_folder
from sandlot.core.errors import ConfigError
from sandlot.interop.bundles.pack import AUDIT, BUNDLE_FORMAT, CALIBRATION, CARD, DOCS, INSIDE, MANIFEST_NAME, BundleManifest
from sandlot.interop.untrusted import read_bytes, source_digest, unpack

_MAX_MANIFEST_BYTES = 32 * 2**20
_BESIDE = frozenset({CARD, AUDIT, CALIBRATION})


def unpack_bundle(file: str | Path, folder: str | Path, *, sha256: str | None = None) -> BundleManifest:
    """Check a bundle and write its environment into a folder, whole or not at all.

    - `file`: the bundle.
    - `folder`: where to write. It must not exist, or be empty. The card, the audit and the manifest go into its `docs/bundle`.
    - `sha256`: the hash that the whole file must have.

    `ConfigError` if the file is damaged, was changed, or holds anything that its manifest does not name.
    """
    path = Path(file)
    if path.is_symlink() or not path.is_file():
        raise ConfigError(f"there is no file `{file}`")
    if sha256 is not None and source_digest(path) != f"sha256:{sha256.lower().removeprefix('sha256:')}":
        raise ConfigError(f"`{file}` has another hash than {sha256}; it is not the file that was meant")
    with tempfile.TemporaryDirectory(prefix="sandlot-unpack-") as temporary:
        place = Path(temporary) / "bundle"
        unpack(path, place)
        manifest = _checked(place, str(file))
        _write(place, Path(folder))
    return manifest


def _checked(place: Path, what: str) -> BundleManifest:
    if not (place / MANIFEST_NAME).is_file():
        raise ConfigError(f"`{what}` is no bundle: it has no `{MANIFEST_NAME}`")
    try:
        manifest = msgspec.json.decode(read_bytes(place / MANIFEST_NAME, at_most=_MAX_MANIFEST_BYTES), type=BundleManifest)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(f"`{what}` has a manifest that cannot be read: {error}") from error
    if manifest.format != BUNDLE_FORMAT:
        raise ConfigError(f"`{what}` has format {manifest.format}; this Sandlot reads {BUNDLE_FORMAT}")
    there = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()} - {MANIFEST_NAME}
    odd = sorted(name for name in there if not name.startswith(f"{INSIDE}/") and name not in _BESIDE)
    odd += sorted(name for name in there if name == f"{INSIDE}/docs" or name.startswith(f"{INSIDE}/{DOCS}/"))
    odd += sorted(there ^ set(manifest.files))
    if odd:
        raise ConfigError(f"`{what}`: `{odd[0][:200]}` has no place in a bundle, or is not both there and in the manifest")
    for name, about in manifest.files.items():
        data = read_bytes(place / name)
        if len(data) != about.size or hashlib.sha256(data).hexdigest() != about.sha256:
            raise ConfigError(f"`{what}`: `{name[:200]}` is not as the manifest says; the file is damaged or was changed")
    if not (place / INSIDE).is_dir():
        raise ConfigError(f"`{what}` holds no environment")
    return manifest


def _write(place: Path, folder: Path) -> None:
    try:
        with replace_folder(folder, known=()) as draft:
            shutil.copytree(place / INSIDE, draft, dirs_exist_ok=True)  # `unpack` wrote only files and folders
            (draft / DOCS).mkdir(parents=True)
            for name in (MANIFEST_NAME, *sorted(_BESIDE)):
                if (place / name).is_file():
                    shutil.copyfile(place / name, draft / DOCS / name)
    except ValueError as error:
        raise ConfigError(f"{error} (`--out FOLDER`)") from error
