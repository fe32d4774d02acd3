"""`sandlot pack`: an environment as one file, with its card, its audit and a manifest of hashes.

    bundle.json           name, fingerprint, image, and size and SHA-256 of every other file
    CARD.md               facts about it
    audit.json            its audit, if there is one of exactly these files
    calibration.json      if one was given
    environment/...       its files

The file is a zip without compression: the same content gives the same bytes on every machine.
"""

import hashlib
import io
import stat
import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from sandlot.audit.reports.folder import as_json, place_of, read_audit
from sandlot.audit.verdict import Audit
from sandlot.core.disk import write_file
from sandlot.core.errors import ConfigError
from sandlot.core.types import Json
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint, files_of
from sandlot.env.load import load
from sandlot.interop.bundles.card import card_of
from sandlot.interop.data.personal import FINDERS
from sandlot.interop.untrusted import read_bytes

MANIFEST_NAME = "bundle.json"
CARD, AUDIT, CALIBRATION = "CARD.md", "audit.json", "calibration.json"
INSIDE = "environment"
"""The folder of the environment's own files in a bundle."""
DOCS = "docs/bundle"
"""Where the other files are put when a bundle is unpacked: the fingerprint does not cover `docs`."""
BUNDLE_FORMAT = 1
_SECRETS = ("private_key", "api_key", "service_token", "aws_key", "login_token")
_PASSED_OVER = frozenset({"__pycache__", "node_modules", "runs"})
_MAX_BYTES = 1 << 30
_TIME = (1980, 1, 1, 0, 0, 0)


class BundledFile(msgspec.Struct, frozen=True):
    """A file of a bundle."""

    size: int
    sha256: str


class BundleManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file `bundle.json`."""

    format: int = BUNDLE_FORMAT
    name: str
    fingerprint: str
    """Of the environment as it was packed; audits name it."""
    sandlot: str
    image: str | None = None
    audit: str | None = None
    """The verdict of the audit in the bundle; None if there is none."""
    files: dict[str, BundledFile]


class PackReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was packed."""

    file: str
    sha256: str
    """Of the whole file: `sandlot unpack FILE --sha256 HASH` refuses any other."""
    bytes: int
    manifest: BundleManifest


def pack_environment(
    what: str | Path, out: str | Path, *, runs: str | Path = "runs", calibration: str | Path | None = None
) -> PackReport:
    """Write an environment as one file. Its Python code is loaded, as `load` does.

    - `what`: a path or a name, as for `load`.
    - `out`: the file to write; it must not exist.
    - `runs`: the folder of runs, in which its audit is looked for.
    - `calibration`: a JSON file with the result of `sandlot calibrate --json`.

    `ConfigError` if it needs files outside of its folder, or a file holds a key.
    """
    target = Path(out)
    if target.exists():
        raise ConfigError(f"`{target}` already exists; choose another name")
    env = load(what)
    files = environment_files(env)
    fingerprint = environment_fingerprint(env, build=False)
    audit = _audit_of(env, what, Path(runs))
    measured = _read_calibration(Path(calibration)) if calibration is not None else None
    parts = {f"{INSIDE}/{name}": read_bytes(path) for name, path in files.items()}
    parts[CARD] = card_of(env, files, audit, measured).encode()
    if audit is not None:
        parts[AUDIT] = as_json(msgspec.structs.replace(audit, place="", subject=env.name))  # paths of the author's machine
    if measured is not None:
        parts[CALIBRATION] = msgspec.json.format(msgspec.json.encode(measured, order="sorted"), indent=2) + b"\n"
    refuse_secrets(parts)
    manifest = BundleManifest(
        name=env.name,
        fingerprint=fingerprint,
        sandlot=_version(),
        image=env.image,
        audit=audit.verdict.value if audit is not None else None,
        files={name: BundledFile(len(data), hashlib.sha256(data).hexdigest()) for name, data in sorted(parts.items())},
    )
    executable = {f"{INSIDE}/{name}" for name, path in files.items() if path.stat().st_mode & stat.S_IXUSR}
    listed = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
    data = zip_bytes({MANIFEST_NAME: listed, **dict(sorted(parts.items()))}, executable)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_file(target, data)
    return PackReport(file=str(target), sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), manifest=manifest)


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - only who packs needs it

    return version("sandlot")


def environment_files(env: Environment) -> dict[str, Path]:
    """The files to pack by name: of a folder all but hidden ones, caches and runs; of one file, what it needs."""
    if env.source is None:
        raise ConfigError(f"environment `{env.name}` was not loaded from a file; save it as one")
    needed = dict(files_of(env))
    outside = [name for name in needed if name.startswith("../")]
    if outside:
        raise ConfigError(
            f"environment `{env.name}` needs `{outside[0]}`, which is outside of its folder; move it there, or make a package"
        )
    folder = env.source if env.source.is_dir() else env.source.parent if env.source.name == "environment.py" else None
    found = needed | (dict(_folder_files(folder)) if folder is not None else {})
    if sum(path.stat().st_size for path in found.values()) > _MAX_BYTES:
        raise ConfigError(f"environment `{env.name}` has more than {_MAX_BYTES:,} bytes of files; remove what tasks do not need")
    return dict(sorted(found.items()))


def _folder_files(folder: Path) -> Iterable[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part.startswith(".") or part in _PASSED_OVER for part in name.parts) or path.suffix == ".pyc":
            continue
        if path.is_symlink():
            raise ConfigError(f"`{path}` is a link; a bundle holds only files and folders")
        if path.is_file() and not name.as_posix().startswith(f"{DOCS}/"):
            yield name.as_posix(), path


def _audit_of(env: Environment, what: str | Path, runs: Path) -> Audit | None:
    """Its audit, if it is of exactly these files and this image."""
    audit = read_audit(env.name, place_of(what), runs)
    if audit is None or audit.fingerprint not in {environment_fingerprint(env, build=False), environment_fingerprint(env)}:
        return None
    return audit


def _read_calibration(path: Path) -> Json:
    try:
        return msgspec.json.decode(read_bytes(path), type=dict[str, object])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"`{path}` is not a calibration: {error}; write one with `sandlot calibrate ENV --json`") from error


def refuse_secrets(parts: Mapping[str, bytes]) -> None:
    """`ConfigError` if a file holds a key or a token."""
    for name, data in parts.items():
        text = data.decode(errors="replace")
        kind = next((kind for kind in _SECRETS if next(FINDERS[kind](text), None) is not None), None)
        if kind is not None:
            raise ConfigError(f"`{name.removeprefix(f'{INSIDE}/')}` holds a secret of the kind `{kind}`; remove it first")


def zip_bytes(parts: Mapping[str, bytes], executable: Collection[str] = ()) -> bytes:
    """A zip without compression and times: the same parts give the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in parts.items():
            info = zipfile.ZipInfo(name, _TIME)
            info.external_attr = (0o100755 if name in executable else 0o100644) << 16
            info.create_system = 3
            archive.writestr(info, data)
    return out.getvalue()
