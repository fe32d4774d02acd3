"""Stored bytes of a run, sent as what they are and never as a page of ours.

The type is decided by the bytes, not by a name: an agent chooses both. Text, HTML included, is sent as plain text; what is none
of the known types is only offered for saving. An SVG drawing is sent as an image when a page asks for one. Every answer has a
policy of its own: a sandbox without scripts, in which nothing is loaded.
"""

from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import Response

from sandlot.core.errors import ConfigError, StoreError
from sandlot.run.results import Run
from sandlot.web.site import Asked

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_SVG_STARTS = (b"<svg", b"<?xml", b"<!--", b"<!doctype svg")
_POLICY = "sandbox; default-src 'none'; frame-ancestors 'self'"
_PDF_POLICY = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"
"""Browsers show a PDF in a viewer of their own, which does not open in a sandbox."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """What some bytes are."""

    kind: str
    """image, svg, pdf, text or other."""
    media_type: str


def artifact_of(data: bytes) -> Artifact:
    """The type of some bytes."""
    for magic, media_type in _IMAGES:
        if data.startswith(magic):
            return Artifact("image", media_type)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return Artifact("image", "image/webp")
    if data.startswith(b"%PDF-"):
        return Artifact("pdf", "application/pdf")
    if _is_text(data):
        return Artifact("svg" if _is_drawing(data[:4096].lower()) else "text", "text/plain; charset=utf-8")
    return Artifact("other", "application/octet-stream")


def _is_drawing(start: bytes) -> bool:
    return b"<svg" in start and start.lstrip().startswith(_SVG_STARTS)


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_blob(run: Run, digest: str) -> bytes:
    """The bytes that a run keeps under a digest; `ConfigError` if it keeps none."""
    try:
        return run.reader.blobs.read(digest)
    except (KeyError, StoreError) as error:
        raise ConfigError(f"the run keeps no bytes under `{digest[:80]}`") from error


def send_artifact(asked: Asked) -> Response:
    """The bytes that `id` asks for; `name` is what they are saved as, `as=image` makes an image of an SVG drawing."""
    data = read_blob(asked.opened, asked.query.get("id", ""))
    found = artifact_of(data)
    drawn = found.kind == "svg" and asked.query.get("as") == "image"
    name = quote(asked.query.get("name", "").rpartition("/")[2][:120] or "artifact", safe="", errors="replace")
    place = "attachment" if found.kind == "other" or "save" in asked.query else "inline"
    return Response(
        data,
        media_type="image/svg+xml" if drawn else found.media_type,
        headers={
            "Content-Disposition": f"{place}; filename*=UTF-8''{name}",
            "Content-Security-Policy": _PDF_POLICY if found.kind == "pdf" else _POLICY,
            "Cross-Origin-Resource-Policy": "same-origin",
        },
    )
