"""What `images` prints: the store's images as lines, and how they are made and removed."""

import logging

import msgspec

from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.sandbox.images.spec import find_image
from sandlot.sandbox.images.store import StoredImage, list_images, remove_unused_images


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One image."""

    name: str
    kind: str
    digest: str
    size_bytes: int
    num_files: int
    made: float
    used: float
    notes: tuple[str, ...]
    key: str
    """Its folder's name in the store."""

    @property
    def said_age(self) -> str:
        """When it was last used, for a person."""
        hours = (SYSTEM_CLOCK.wall() - self.used) / 3600
        return f"{hours / 24:.0f} days ago" if hours >= 48 else f"{hours:.0f} hours ago" if hours >= 1 else "just now"


def shown() -> list[Line]:
    """Everything there is, the one used last first."""
    return [_line(item) for item in list_images()]


def removed(unused_for_s: float) -> list[Line]:
    """Remove images that no process uses and that were not used in that time."""
    return [_line(item) for item in remove_unused_images(unused_for_s=unused_for_s)]


def made(spec: str) -> list[Line]:
    """Make one image, telling on stderr how far it is, and say what it was made into."""
    logging.getLogger("sandlot.sandbox.images").setLevel(logging.INFO)
    image = find_image(spec)
    folders = {lease.folder.name for lease in image.leases}
    return [_line(item) for item in list_images() if item.key in folders and item.about.kind != "bare"]


def _line(item: StoredImage) -> Line:
    about = item.about
    return Line(
        name=about.name,
        kind=about.kind,
        digest=about.digest,
        size_bytes=about.size_bytes,
        num_files=about.num_files,
        made=about.made,
        used=item.used,
        notes=about.notes,
        key=item.key,
    )
