"""A list of Debian packages as an image, installed by `debootstrap` and stored under the list.

`debian:bookworm?git,python3-minimal`, or `debian:bookworm?@packages.txt` with a file of names. The packages come from the mirror
of this machine's apt. The same list can give newer versions on another machine or another day, so the digest is that of the
installed versions, and the image is not portable.
"""

import hashlib
import logging
import os
import re
import shutil
import signal
import stat
import subprocess
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from sandlot.core.errors import ConfigError, SandboxError
from sandlot.sandbox.images.image import SandboxImage
from sandlot.sandbox.images.skeleton import make_bare_skeleton
from sandlot.sandbox.images.store import ImageAbout, Lease, hold, keep, key_for

_log = logging.getLogger(__name__)

_KIND = "debian"
_FORMAT = "1"
"""Part of the recipe's hash: change it when the steps after the installation change."""
_VARIANT = "minbase"
_APT_S = 120.0
"""Time for apt to name its mirrors: a second, and over thirty on a machine that is overloaded."""
_SUITE = re.compile(r"[a-z][a-z0-9.-]*")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_EMPTIED = ("dev", "run", "tmp", "var/cache/apt/archives", "var/lib/apt/lists", "var/log", "var/tmp")
_REWRITTEN = {
    "etc/apt/sources.list": "",
    "etc/hostname": "sandbox\n",
    "etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "etc/machine-id": "",
    "etc/resolv.conf": "",
}
"""Files into which debootstrap copies this machine's name, resolver and mirror, and what they get instead."""


@dataclass(frozen=True, slots=True)
class DebianRecipe:
    """A suite and a list of packages."""

    suite: str
    packages: tuple[str, ...]
    """Sorted, each once."""

    @property
    def name(self) -> str:
        """The image spec."""
        return f"debian:{self.suite}" + (f"?{','.join(self.packages)}" if self.packages else "")

    @property
    def key(self) -> str:
        """Its key in the store."""
        text = "\n".join((_FORMAT, _VARIANT, os.uname().machine, self.suite, *self.packages))
        return key_for(_KIND, hashlib.sha256(text.encode()).hexdigest())


def read_recipe(rest: str) -> DebianRecipe:
    """Parse what follows `debian:`; a file of names is read."""
    suite, _, listed = rest.partition("?")
    if listed.startswith("@"):
        path = Path(listed[1:])
        if not path.is_file():
            raise ConfigError(f"image `debian:{rest}`: no file at {path}")
        names = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    else:
        names = [name.strip() for name in listed.split(",")]
    packages = tuple(sorted({name for name in names if name}))
    if not _SUITE.fullmatch(suite):
        raise ConfigError(f"image `debian:{rest}`: `{suite}` is not a Debian suite; write `debian:bookworm?git,python3-minimal`")
    wrong = [name for name in packages if not _PACKAGE.fullmatch(name)]
    if wrong:
        raise ConfigError(f"image `debian:{rest}`: `{wrong[0]}` is not a valid name of a Debian package")
    return DebianRecipe(suite, packages)


def debian_image(recipe: DebianRecipe) -> SandboxImage:
    """Install the packages, or find them installed."""
    lease = _install(recipe)
    bare = make_bare_skeleton()
    return SandboxImage(name=recipe.name, trees=(("/", (lease.root, bare.root)),), portable=False, leases=(lease, bare))


def debian_digest(recipe: DebianRecipe, *, build: bool) -> str:
    """The digest of the installed names and versions; without `build`, `unbuilt` if the image was not built yet."""
    there = _install(recipe) if build else hold(recipe.key)
    return there.about().digest if there is not None else f"{recipe.name}:unbuilt"


def _install(recipe: DebianRecipe) -> Lease:
    def fill(lease: Lease) -> ImageAbout:
        _debootstrap(recipe, lease)
        _clean(lease.root)
        versions = installed_versions(lease.root)
        digest = f"debian:sha256:{hashlib.sha256(versions.encode()).hexdigest()}"
        return ImageAbout(kind=_KIND, name=recipe.name, digest=digest, notes=("not portable: versions are those of the day",))

    return keep(recipe.key, fill)


def _debootstrap(recipe: DebianRecipe, lease: Lease) -> None:
    program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise SandboxError(f"image `{recipe.name}` needs debootstrap: `apt-get install debootstrap`", kind="config")
    if os.geteuid() != 0:
        raise SandboxError(
            f"image `{recipe.name}`: only root can install packages; build it as root and use it as a `folder:`",
            kind="config",
        )
    include = [f"--include={','.join(recipe.packages)}"] if recipe.packages else []
    # A private mount and process namespace: however this ends, no mount and no process is left.
    command = ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child=KILL", "--"]
    command += [
        program,
        f"--variant={_VARIANT}",
        "--force-check-gpg",
        *include,
        recipe.suite,
        str(lease.root),
        *_mirror(recipe.suite),
    ]
    _log.warning("installing Debian packages for an image: a minute or two, once", extra={"image": recipe.name})
    last: deque[str] = deque(maxlen=20)
    process = subprocess.Popen(  # noqa: S603 - names were checked
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", **_proxies()},
        pass_fds=(lease.lock,),  # if we are killed, the draft stays locked until debootstrap ends
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            last.append(_without_password(line.strip()))
            _log.info("debootstrap", extra={"image": recipe.name, "line": last[-1]})
        code = process.wait()
    except BaseException:
        process.send_signal(signal.SIGKILL)
        process.wait()
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()
    if code:
        raise SandboxError(f"image `{recipe.name}`: debootstrap failed with code {code}\n" + "\n".join(last), kind="config")


def _mirror(suite: str) -> list[str]:
    """The mirror of the suite in this machine's apt configuration; empty for debootstrap's default."""
    columns = "$(CREATED_BY) $(CODENAME) $(COMPONENT) $(REPO_URI)"
    command = ["apt-get", "indextargets", "--format", columns]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_APT_S, check=False)  # noqa: S603 - a fixed command
    except FileNotFoundError:
        return []
    except subprocess.TimeoutExpired as error:
        raise SandboxError(f"`apt-get` did not name its mirrors within {_APT_S:g} s; try again", kind="timeout") from error
    rows = [line.split(" ", 3) for line in done.stdout.splitlines()]
    return [row[3] for row in rows if row[:3] == ["Packages", suite, "main"]][:1]


def _proxies() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.lower() in {"http_proxy", "https_proxy", "no_proxy"}}


def _without_password(line: str) -> str:
    return re.sub(r"//[^/@\s]*@", "//", line)


def _clean(root: Path) -> None:
    """Remove what is specific to this machine or day, and files that are a risk for the host: see `unpack.py`."""
    for name in _EMPTIED:
        for path in (root / name).glob("*"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name, text in _REWRITTEN.items():
        path = root / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o644)
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in (*folders, *files):
            path = Path(os.fsdecode(folder), os.fsdecode(name))
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                path.chmod(stat.S_IMODE(mode) & 0o777)
            elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                path.unlink()


def installed_versions(root: Path) -> str:
    """`name version architecture` of every package, one per line, sorted."""
    lines: list[str] = []
    for block in (root / "var/lib/dpkg/status").read_text(errors="replace").split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture|Status): (.*)$", block, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            lines.append(f"{fields['Package']} {fields['Version']} {fields['Architecture']}")
    return "\n".join(sorted(lines)) + "\n"
