"""What `images` prints: one line per stored image."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.sandbox.images.store import StoredImage


def as_json(images: Sequence[StoredImage], *, removed: bool) -> dict[str, Any]:
    """Every image with all that is known of it."""
    lines = [{**msgspec.structs.asdict(each.about), "used": each.used, "key": each.key} for each in images]
    for line in lines:
        del line["format"]
    return {"removed": removed, "images": lines, "size_bytes": sum(each.about.size_bytes for each in images)}


def print_images(images: Sequence[StoredImage], *, removed: bool) -> None:
    """Size, digest, last use and name of each, then the total."""
    for each in images:
        about, size = each.about, f"{each.about.size_bytes / 2**20:.1f} MiB"
        print(f"{'removed  ' if removed else ''}{size:>12}  {about.digest[:26]:<26}  {_age(each.used):>12}  {about.name}")
    print(
        f"{len(images)} image{'s' if len(images) != 1 else ''}, {sum(each.about.size_bytes for each in images) / 2**20:.1f} MiB"
    )


def _age(used: float) -> str:
    hours = (SYSTEM_CLOCK.wall() - used) / 3600
    return f"{hours / 24:.0f} days ago" if hours >= 48 else f"{hours:.0f} hours ago" if hours >= 1 else "just now"
