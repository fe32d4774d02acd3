"""Image archives made by hand, honest and hostile."""

import gzip
import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

from sandlot.sandbox.images.byte_range import ByteRange

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def file(name: str, data: bytes = b"", **fields) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def special(name: str, kind: bytes, link: str = "", **fields) -> tuple[tarfile.TarInfo, bytes]:
    info, _ = file(name, **fields)
    info.type, info.linkname = kind, link
    return info, b""


def folder(name: str, mode: int = 0o755, **fields):
    return special(name, tarfile.DIRTYPE, mode=mode, **fields)


def link(name: str, target: str):
    return special(name, tarfile.SYMTYPE, target)


def hard_link(name: str, target: str):
    return special(name, tarfile.LNKTYPE, target)


def tar_of(*entries: tuple[tarfile.TarInfo, bytes], style: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=style) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if data else None)
    return out.getvalue()


def hexes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def config_of(layers: Sequence[bytes], **fields) -> bytes:
    ids = [f"sha256:{hexes(layer)}" for layer in layers]
    return json.dumps(
        {"architecture": ARCHITECTURE, "os": "linux", "rootfs": {"type": "layers", "diff_ids": ids}} | fields
    ).encode()


def gzipped(layer: bytes) -> bytes:
    return gzip.compress(layer, 1, mtime=0)


def docker_archive(
    *layers: bytes,
    packed: bool = False,
    tags: Iterable[str] = ("box:1",),
    config: bytes | None = None,
    pack: Callable[[bytes], bytes] = gzipped,
) -> bytes:
    """As `docker save` writes it."""
    config = config_of(layers) if config is None else config
    stored = [pack(layer) if packed else layer for layer in layers]
    names = [f"{hexes(layer)}/layer.tar" for layer in layers]
    manifest = [{"Config": f"{hexes(config)}.json", "RepoTags": list(tags), "Layers": names}]
    pieces = [file(name, data) for name, data in dict(zip(names, stored, strict=True)).items()]
    return tar_of(*pieces, file(f"{hexes(config)}.json", config), file("manifest.json", json.dumps(manifest).encode()))


def oci_blobs(*layers: bytes, packed: bool = True) -> dict[str, bytes]:
    """An OCI layout by file name, with an index inside the index as builders write it."""
    blobs: dict[str, bytes] = {}

    def put(data: bytes, kind: str) -> dict[str, object]:
        blobs[f"blobs/sha256/{hexes(data)}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{hexes(data)}", "size": len(data)}

    config = put(config_of(layers), "config.v1+json")
    stored = [put(gzip.compress(layer, 1, mtime=0) if packed else layer, "layer.v1.tar+gzip") for layer in layers]
    manifest = put(json.dumps({"schemaVersion": 2, "config": config, "layers": stored}).encode(), "manifest.v1+json")
    here = manifest | {"platform": {"os": "linux", "architecture": ARCHITECTURE}}
    other = manifest | {"platform": {"os": "linux", "architecture": "s390x"}}
    papers = manifest | {"annotations": {"vnd.docker.reference.type": "attestation-manifest"}}
    inner = put(json.dumps({"manifests": [other, here, papers]}).encode(), "index.v1+json")
    return blobs | {"index.json": json.dumps({"manifests": [inner]}).encode(), "oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}


@contextmanager
def stretch_of(data: bytes, folder: Path):
    path = folder / f"stretch-{hexes(data)[:12]}"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        yield ByteRange(fd, 0, len(data))
    finally:
        os.close(fd)
        path.unlink()
