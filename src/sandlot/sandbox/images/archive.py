"""Image archives: what `docker save` writes, and OCI layouts (a tar or a folder), compressed or not.

The image's digest is that of its configuration, which names every layer by the hash of its uncompressed bytes; a layer is used
only if its hash is right. So the digest depends on the content alone: an image saved twice with different compression is one
image.
"""

import os
import posixpath
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from sandlot.core.errors import ConfigError, boundary
from sandlot.sandbox.defaults import CommandDefaults, command_defaults
from sandlot.sandbox.images.archive_files import ArchiveFiles, blob_name, digest_of, open_archive, open_decompressed
from sandlot.sandbox.images.byte_range import ByteRange, bad_archive
from sandlot.sandbox.images.image import SandboxImage, image_architecture, require_mount_points
from sandlot.sandbox.images.skeleton import make_bare_skeleton
from sandlot.sandbox.images.store import ImageAbout, Lease, keep, key_for
from sandlot.sandbox.images.unpack import ImageCaps, Unpacking

KIND = "archive"
_HEX = re.compile(r"[0-9a-f]{64}")


class _Platform(msgspec.Struct, frozen=True):
    os: str = ""
    architecture: str = ""


class _Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    digest: str
    size: int
    media_type: str = ""
    platform: _Platform | None = None
    annotations: dict[str, str] = {}


class _Index(msgspec.Struct, frozen=True):
    manifests: list[_Descriptor]


class _OciManifest(msgspec.Struct, frozen=True):
    config: _Descriptor
    layers: list[_Descriptor]


class _DockerManifest(msgspec.Struct, frozen=True, rename="pascal"):
    config: str
    layers: list[str]
    repo_tags: list[str] | None = None


class _RootFs(msgspec.Struct, frozen=True):
    diff_ids: list[str]


class _RunConfig(msgspec.Struct, frozen=True, rename="pascal"):
    env: list[str] | None = None
    user: str | None = None
    working_dir: str | None = None


class _ImageConfig(msgspec.Struct, frozen=True):
    rootfs: _RootFs
    architecture: str = ""
    config: _RunConfig | None = None


@dataclass(frozen=True, slots=True)
class _ImageLayer:
    """One layer in the archive."""

    packed: ByteRange
    packed_digest: str | None
    """Digest of the compressed bytes, if the manifest has one."""


@dataclass(frozen=True, slots=True)
class _ArchiveContents:
    """The image of an archive, before unpacking."""

    digest: str
    layers: tuple[_ImageLayer, ...]
    """Bottom first."""
    diff_ids: tuple[str, ...]
    """Digest of each layer's uncompressed bytes, from the configuration."""
    defaults: CommandDefaults


def archive_image(path: Path, tag: str = "", caps: ImageCaps | None = None) -> SandboxImage:
    """Unpack an archive into the store, or find it there."""
    caps = caps or ImageCaps()
    with _named_errors(path), open_archive(path, caps) as files:
        contents = _read_contents(files, tag)

        def fill(lease: Lease) -> ImageAbout:
            with boundary(ConfigError, "unpacking it"):  # the message tells a full disk from an impossible file name
                left_out = _unpack(contents, lease.root, caps)
            require_mount_points(lease.root)
            notes = (f"{left_out} devices and pipes left out",) if left_out else ()
            return ImageAbout(kind=KIND, name=f"archive:{path.name}", digest=contents.digest, notes=notes)

        lease = keep(key_for(KIND, contents.digest.removeprefix("sha256:")), fill)
    bare = make_bare_skeleton()
    trees = (("/", (lease.root, bare.root)),)
    return SandboxImage(name=f"archive:{path}", trees=trees, portable=True, defaults=contents.defaults, leases=(lease, bare))


def archive_digest(path: Path, tag: str = "") -> str:
    """The digest, without unpacking the archive."""
    with _named_errors(path), open_archive(path, ImageCaps()) as files:
        return _read_contents(files, tag).digest


@contextmanager
def _named_errors(path: Path) -> Generator[None]:
    """Add the archive's path to every error."""
    try:
        with boundary(ConfigError, "reading it"):
            yield
    except ConfigError as error:
        raise ConfigError(f"image `archive:{path}`: {error}", kind=error.kind) from error


# -- reading the manifest ------------------------------------------------------------------------------------------------------


def _read_contents(files: ArchiveFiles, tag: str = "") -> _ArchiveContents:
    """The one image of an archive, or the one with that tag."""
    if files.find("manifest.json") is not None:
        config, layers = _read_docker(files, tag)
    elif files.find("index.json") is not None:
        config, layers = _read_oci(files, tag)
    else:
        raise bad_archive("it has neither `manifest.json` (of `docker save`) nor `index.json` (of an OCI layout)")
    about = msgspec.json.decode(config, type=_ImageConfig)
    diff_ids = about.rootfs.diff_ids
    here = image_architecture()
    if about.architecture not in {"", here}:
        raise ConfigError(f"the image is for {about.architecture}, this machine is {here}; save the {here} variant")
    if len(diff_ids) != len(layers) or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in diff_ids):
        raise bad_archive(f"its configuration names {len(diff_ids)} layers by sha256, the archive has {len(layers)}")
    run = about.config or _RunConfig()
    defaults = command_defaults(run.env, run.user, run.working_dir)
    return _ArchiveContents(digest_of(config), tuple(layers), tuple(diff_ids), defaults)


def _read_docker(files: ArchiveFiles, tag: str) -> tuple[bytes, list[_ImageLayer]]:
    saved = msgspec.json.decode(files.read_json("manifest.json"), type=list[_DockerManifest])
    tags = {name: one for one in saved for name in (one.repo_tags or ())}
    one = _choose_image(saved, tags, tag)
    config = files.read_json(posixpath.normpath(one.config))
    named = _HEX.search(one.config)
    if named is not None and f"sha256:{named[0]}" != digest_of(config):
        raise bad_archive(f"the configuration does not match the hash in its name: {one.config}")
    return config, [_ImageLayer(files.get(posixpath.normpath(layer)), None) for layer in one.layers]


def _read_oci(files: ArchiveFiles, tag: str) -> tuple[bytes, list[_ImageLayer]]:
    index = msgspec.json.decode(files.read_json("index.json"), type=_Index)
    one = None
    while one is None or "index" in one.media_type or "manifest.list" in one.media_type:  # an index with one entry per platform
        index = index if one is None else msgspec.json.decode(files.read_blob(one.digest), type=_Index)
        choices = [each for each in index.manifests if _runs_here(each)]
        named = {each.annotations.get("org.opencontainers.image.ref.name", ""): each for each in choices}
        one = _choose_image(choices, named, tag if any(named) else "")
    manifest = msgspec.json.decode(files.read_blob(one.digest), type=_OciManifest)
    layers = [_ImageLayer(files.get(blob_name(layer.digest)), layer.digest) for layer in manifest.layers]
    return files.read_blob(manifest.config.digest), layers


_T = TypeVar("_T")


def _choose_image(choices: list[_T], named: Mapping[str, _T], tag: str) -> _T:
    there = ", ".join(f"`{name}`" for name in named if name) or "none has a name"
    if tag:
        if tag not in named:
            raise ConfigError(f"no image `{tag}` in the archive; there are: {there}")
        return named[tag]
    if len(choices) != 1:
        raise ConfigError(f"the archive has {len(choices)} images for this machine; choose one with `archive:PATH#NAME`: {there}")
    return choices[0]


def _runs_here(each: _Descriptor) -> bool:
    if "attestation-manifest" in each.annotations.get("vnd.docker.reference.type", ""):
        return False
    return each.platform is None or (each.platform.os, each.platform.architecture) in {("linux", image_architecture()), ("", "")}


# -- unpacking it --------------------------------------------------------------------------------------------------------------


def _unpack(contents: _ArchiveContents, root: Path, caps: ImageCaps) -> int:
    unpacking = Unpacking(root, caps, keep_owners=os.geteuid() == 0)
    for layer, diff_id in zip(contents.layers, contents.diff_ids, strict=True):
        if layer.packed_digest is not None and layer.packed.digest() != layer.packed_digest:
            raise bad_archive(f"a layer is damaged: its bytes do not match {layer.packed_digest}")
        with open_decompressed(layer.packed, caps) as tar:
            if tar.digest() != diff_id:
                raise bad_archive(f"a layer is damaged: its uncompressed bytes do not match {diff_id}")
            unpacking.add(tar)
    unpacking.finish()
    return unpacking.num_left_out
