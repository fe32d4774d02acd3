"""The bases that a Containerfile may start from, each made of Debian packages.

There is no registry: an image name stands for the Debian release and packages that are closest to it. Where that is not the same
thing (Ubuntu, another minor version), a note says so. Any other name is refused.
"""

import re
from dataclasses import dataclass, field

from sandlot.core.errors import ConfigError

_SUITES = {"13": "trixie", "12": "bookworm", "11": "bullseye"}
_PYTHONS = {"trixie": "3.13", "bookworm": "3.11", "bullseye": "3.9"}
_UBUNTUS = {
    "24.04": "trixie",
    "noble": "trixie",
    "22.04": "bookworm",
    "jammy": "bookworm",
    "20.04": "bullseye",
    "focal": "bullseye",
}
_NEEDED = ("ca-certificates",)
_PYTHON_PACKAGES = ("python3-pip", "python3-venv")
_TERMINAL_PACKAGES = ("asciinema", "python3-pip", "python3-venv", "tmux")
"""What the base images of Terminal-Bench have besides."""
_CURL = ("curl", "gnupg", "wget")
_SCM = (*_CURL, "git", "mercurial", "openssh-client", "procps", "subversion")
_BUILD = (
    *_SCM,
    *("autoconf", "automake", "bzip2", "dpkg-dev", "file", "g++", "gcc", "make", "patch", "unzip", "xz-utils"),
    *("libbz2-dev", "libffi-dev", "libncurses-dev", "libreadline-dev", "libsqlite3-dev", "libssl-dev", "zlib1g-dev"),
)
"""What `buildpack-deps` has, without its larger libraries."""
_OLD_PIP = {"PIP_BREAK_SYSTEM_PACKAGES": "1"}
"""For releases in which `pip install` needs no flag, where a newer one stands for them."""


@dataclass(frozen=True, slots=True)
class Base:
    """What an image name stands for."""

    suite: str
    packages: tuple[str, ...]
    folder: str = "/"
    env: dict[str, str] = field(default_factory=dict[str, str])
    python: bool = False
    """True if `python` and `pip` are the image's own: `pip install` needs no flag."""
    notes: tuple[str, ...] = ()

    @property
    def spec(self) -> str:
        """The image spec of its packages."""
        return f"debian:{self.suite}?{','.join(sorted({*_NEEDED, *self.packages}))}"


def find_base(image: str) -> Base:
    """The base of an image name such as `python:3.13-slim`; `ConfigError` if there is none."""
    named = image.partition("@")[0]
    name, _, tag = named.rpartition("/")[2].partition(":")
    tag = tag or "latest"
    if name == "debian":
        return Base(_debian_suite(image, tag), ())
    if name == "ubuntu":
        return _ubuntu(image, next((known for known in _UBUNTUS if tag.startswith(known)), "24.04" if tag == "latest" else tag))
    if name == "python":
        return _python(image, tag)
    if name == "buildpack-deps":
        return _buildpack(image, tag)
    if match := re.fullmatch(r"ubuntu-(\d\d)-(\d\d)", name):
        found = _ubuntu(image, f"{match[1]}.{match[2]}")
        return Base(found.suite, _TERMINAL_PACKAGES, "/app", found.env, notes=found.notes)
    if match := re.fullmatch(r"python-(\d)-(\d+)", name):
        found = _python(image, f"{match[1]}.{match[2]}")
        return Base(found.suite, _TERMINAL_PACKAGES, "/app", found.env, python=True, notes=found.notes)
    known = "debian, ubuntu, python and buildpack-deps"
    raise ConfigError(f"the base image `{image}` cannot be had: images are built from Debian packages for {known}")


def _debian_suite(image: str, tag: str) -> str:
    first = re.split(r"[-.]", tag)[0]
    suite = _SUITES.get(first, {"latest": "trixie", "stable": "trixie"}.get(first, first))
    if suite not in _PYTHONS:
        raise ConfigError(f"the base image `{image}` cannot be had: no Debian `{tag}`; there are {', '.join(_PYTHONS)}")
    return suite


def _ubuntu(image: str, version: str) -> Base:
    if version not in _UBUNTUS:
        raise ConfigError(f"the base image `{image}` cannot be had: no Debian release stands for Ubuntu `{version}`")
    suite = _UBUNTUS[version]
    old = version not in {"24.04", "noble"} and suite != "bullseye"
    notes = (f"Debian {suite} stands for Ubuntu {version}: versions of packages differ",)
    return Base(suite, (), env=_OLD_PIP if old else {}, notes=notes)


def _buildpack(image: str, tag: str) -> Base:
    """`buildpack-deps:RELEASE`, with `-curl` or `-scm` for its smaller ones."""
    release, _, size = tag.partition("-")
    found = _ubuntu(image, release) if release in _UBUNTUS else Base(_debian_suite(image, release), ())
    if size not in {"", "curl", "scm"}:
        raise ConfigError(f"the base image `{image}` cannot be had: there are `buildpack-deps:{release}`, `-curl` and `-scm`")
    packages = {"curl": _CURL, "scm": _SCM}.get(size, _BUILD)
    more = () if size else ("of the libraries of `buildpack-deps` only the small ones are there",)
    return Base(found.suite, packages, env=found.env, notes=(*found.notes, *more))


def _python(image: str, tag: str) -> Base:
    version = re.match(r"3(?:\.(\d+))?", tag)
    wanted = f"3.{version[1]}" if version and version[1] else "3.13" if version or tag in {"latest", "slim"} else ""
    suite = next((suite for suite, has in _PYTHONS.items() if has == wanted), None)
    if suite is None:
        there = ", ".join(f"{has} ({suite})" for suite, has in _PYTHONS.items())
        raise ConfigError(f"the base image `{image}` cannot be had: Debian's releases have Python {there}")
    exact = re.match(r"3\.\d+\.\d+", tag)
    notes = (f"Debian's Python {wanted} stands for {exact[0]}",) if exact else ()
    return Base(suite, _PYTHON_PACKAGES, env={"PIP_BREAK_SYSTEM_PACKAGES": "1"}, python=True, notes=notes)
