"""Image specs: how images are named.

    host                             the machine's own /usr; nothing to download, not portable
    host:FOLDER:FOLDER               the same with more of the machine's folders, each in its own place
    folder:PATH                      a folder with a root file system, used in place
    archive:PATH   archive:PATH#TAG  written by `docker save`, or an OCI layout
    debian:SUITE?PACKAGE,PACKAGE     installed by debootstrap; `?@FILE` reads the names from a file
    containerfile:PATH               a Containerfile or Dockerfile, or the folder with one; built in a sandbox

A path that starts with `/` or `.` is a folder or an archive. Paths are relative to the environment's folder: its owner calls
`resolve_spec` once, and everything below works with absolute paths.
"""

from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.sandbox.images.archive import archive_digest, archive_image
from sandlot.sandbox.images.containerfile import containerfile_digest, containerfile_image
from sandlot.sandbox.images.debian import debian_digest, debian_image, read_recipe
from sandlot.sandbox.images.folder import folder_digest, folder_image
from sandlot.sandbox.images.host import host_digest, host_image
from sandlot.sandbox.images.image import SandboxImage
from sandlot.sandbox.images.store import StoredImage, list_images

USR = Path("/usr")
"""The folder of the machine that is in every `host` image."""

_KINDS = ("host", "folder:PATH", "archive:PATH", "debian:SUITE?PACKAGE,PACKAGE", "containerfile:PATH", "host:FOLDER:FOLDER")


_NAMES = frozenset(kind.partition(":")[0] for kind in _KINDS)


def is_image_spec(spec: str) -> bool:
    """False for a name that only a backend such as Docker may know."""
    return spec.startswith(("/", ".")) or spec == "host" or spec.partition(":")[0] in _NAMES


def resolve_spec(spec: str, folder: Path | None = None) -> str:
    """The spec with its path made absolute, relative to `folder` or the current folder."""
    if not is_image_spec(spec):
        return spec
    kind, rest = _split(spec)
    base = (folder or Path.cwd()).absolute()
    if kind == "path":
        kind = "archive" if (base / rest).is_file() else "folder"
    if kind in {"folder", "archive", "containerfile"}:
        return f"{kind}:{base / rest}"
    if kind == "debian":
        suite, mark, path = rest.partition("?@")
        return f"debian:{suite}?@{base / path}" if mark else spec
    return ":".join(("host", *(str(base / folder) for folder in rest.split(":")))) if rest else spec


def find_image(spec: str, folder: Path | None = None) -> SandboxImage:
    """The image of a spec; builds what it needs in the store."""
    kind, rest = _split(resolve_spec(spec, folder))
    if kind == "folder":
        return folder_image(Path(rest).resolve())
    if kind == "archive":
        return archive_image(*_split_tag(rest))
    if kind == "debian":
        return debian_image(read_recipe(rest))
    if kind == "containerfile":
        return containerfile_image(Path(rest))
    return host_image(_folders(rest))


def build_image(spec: str, folder: Path | None = None) -> list[StoredImage]:
    """Build an image, or find it built, and return its entries in the store."""
    keys = {lease.folder.name for lease in find_image(spec, folder).leases}
    return [each for each in list_images() if each.key in keys and each.about.kind != "bare"]


def image_digest(spec: str, folder: Path | None = None, *, build: bool = True) -> str:
    """The digest of an image, for the environment's fingerprint. With `build`, a `debian:` image is built if it is missing."""
    kind, rest = _split(resolve_spec(spec, folder))
    if kind == "folder":
        return folder_digest(Path(rest).resolve())
    if kind == "archive":
        return archive_digest(*_split_tag(rest))
    if kind == "debian":
        return debian_digest(read_recipe(rest), build=build)
    if kind == "containerfile":
        return containerfile_digest(Path(rest), build=build)
    return host_digest(_folders(rest))


def image_path(spec: str, folder: Path | None = None) -> Path | None:
    """The path of the image, if it is a file or folder of the author."""
    kind, rest = _split(resolve_spec(spec, folder))
    if kind == "archive":
        return _split_tag(rest)[0]
    return Path(rest) if kind == "folder" else None


def visible_folders(spec: str, folder: Path | None = None) -> tuple[Path, ...]:
    """The folders of the host that can be read in a sandbox of this image."""
    kind, rest = _split(resolve_spec(spec, folder))
    if kind == "host":
        return (USR, *(each.resolve() for each in _folders(rest)))
    return (Path(rest).resolve(),) if kind == "folder" else ()


def _split(spec: str) -> tuple[str, str]:
    if spec == "host":
        return "host", ""
    if spec.startswith(("/", ".")):
        return "path", spec
    kind, _, rest = spec.partition(":")
    if not is_image_spec(spec) or not rest:
        there = ", ".join(f"`{each}`" for each in _KINDS)
        raise ConfigError(f"no image named {spec!r}; image specs are: {there}")
    return kind, rest


def _folders(rest: str) -> tuple[Path, ...]:
    return tuple(Path(folder) for folder in rest.split(":") if folder)


def _split_tag(rest: str) -> tuple[Path, str]:
    """A path, and the tag after its last `#`, unless a file has that whole name."""
    path, mark, tag = rest.rpartition("#")
    return (Path(path), tag) if mark and not Path(rest).exists() else (Path(rest), "")
