"""Settings files of tools in the machine's `/usr` that may hold tokens: the `host` image hides them.

A layer over `/usr` marks each of them as deleted, so they do not exist in a sandbox.
"""

import hashlib
import os
import shutil
import stat
from pathlib import Path

from sandlot.sandbox.images.skeleton import default_umask
from sandlot.sandbox.images.store import ImageAbout, Lease, keep, key_for

PATTERNS = (
    # npm, pnpm and yarn; `/usr/share` is where Debian has npm
    *("etc/*npmrc", "local/etc/*npmrc", "etc/*yarnrc*", "local/etc/*yarnrc*", "etc/pnpm", "local/etc/pnpm"),
    *("lib/node_modules/npm/npmrc", "local/lib/node_modules/npm/npmrc", "share/nodejs/npm/npmrc", "share/npm/npmrc"),
    # pip, uv, conda, git
    *("pip.conf", "local/pip.conf", "etc/uv", "local/etc/uv", ".condarc", "local/.condarc", "local/conda/.condarc"),
    *("etc/gitconfig", "local/etc/gitconfig", "local/git/etc/gitconfig", "local/share/git-core/gitconfig"),
    # cargo, go, maven, gradle, ruby, php, R, docker
    *("local/cargo/config*", "local/cargo/credentials*", "local/go/go.env", "lib/go*/go.env", "share/go*/go.env"),
    *("share/maven*/conf/settings.xml", "local/*maven*/conf/settings.xml", "local/gradle*/gradle.properties"),
    *("etc/gemrc", "local/etc/gemrc", "local/bundle/config", "local/share/composer/auth.json", "local/composer/auth.json"),
    *("lib/R/etc/Renviron.site", "lib/R/etc/Rprofile.site", "local/lib/R/etc/Renviron.site", "local/lib/R/etc/Rprofile.site"),
    *("local/.docker", "etc/docker", "local/etc/docker"),
    # tools that read a home folder, with `/usr/local` as the home
    *(".netrc", "local/.netrc", ".git-credentials", "local/.git-credentials", ".aws", "local/.aws", ".pypirc", "local/.pypirc"),
)
"""Relative to `/usr`. Files or folders."""


def find_settings(usr: Path = Path("/usr")) -> list[Path]:
    """Those that exist on this machine, relative to `/usr`, with links resolved."""
    top = usr.resolve()
    places = {path.parent.resolve() / path.name for pattern in PATTERNS for path in usr.glob(pattern)}
    return sorted(place.relative_to(top) for place in places if place.is_relative_to(top))


def hide_settings(usr: Path = Path("/usr")) -> Lease | None:
    """A layer that hides them; None if there are none."""
    found = find_settings(usr)
    if not found:
        return None
    stamp = hashlib.sha256("\0".join(map(str, found)).encode("utf-8", "surrogateescape")).hexdigest()

    def fill(lease: Lease) -> ImageAbout:
        with default_umask():
            for path in found:
                _make_folders(usr, lease.root, path.parent)
                os.mknod(lease.root / path, stat.S_IFCHR, os.makedev(0, 0))  # how an overlay marks what is deleted
        return ImageAbout(kind="hidden", name="host", digest=f"hidden:{stamp}")

    return keep(key_for("hidden", stamp), fill)


def _make_folders(usr: Path, root: Path, folder: Path) -> None:
    """Make the folders above a hidden file, with the modes of `/usr`: a sandbox sees those of the topmost layer."""
    for above in (*reversed(folder.parents), folder):
        (root / above).mkdir(exist_ok=True)
        shutil.copystat(usr / above, root / above)
