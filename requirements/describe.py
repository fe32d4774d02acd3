"""Describes what an installed Sandlot depends on: an SBOM (CycloneDX JSON) and a page of licences, both carried by wheels.

Names, versions and hashes come from `runtime.txt`, licences from the metadata of the packages installed here. The hashes of a
component are those of its files, of which one is installed. Run by `make lock`.
"""

import json
import re
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
LOCK = HERE / "runtime.txt"
SBOM = HERE / "sandlot.cdx.json"
NOTICES = HERE.parent / "licenses/THIRD-PARTY.md"
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")

WITHOUT_HASH = (
    "torch, which only the extra `torch` installs, is no component here. requirements/torch.txt pins its version without a hash: "
    "its builds for CPU, CUDA and each processor are different files of one version."
)

HEAD = """# What Sandlot depends on

Installing Sandlot installs these packages, at these versions or newer ones. A wheel of Sandlot has no copy of them: each has its
own licence with it. What a wheel does have is the C library that is linked into the sandbox program; its notice lies beside the
program, in `sandlot/sandbox/agent/built/`. Written by `make lock`.

| package | version | licence |
|---|---|---|
"""


@dataclass(frozen=True)
class Locked:
    """One entry of the lock."""

    name: str
    version: str
    wanted_by: tuple[str, ...]
    hashes: tuple[str, ...]
    """SHA-256 of each file of this version that may be installed."""


def read_lock(text: str) -> list[Locked]:
    """What is installed on Linux, on any of the processors and Pythons we support."""
    entries = re.split(r"\n(?=[a-z0-9])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    found: list[Locked] = []
    for entry in entries:
        pinned = Requirement(entry.partition("\\")[0].strip())
        if pinned.marker is None or _applies(pinned.marker):
            (version,) = (each.version for each in pinned.specifier)
            names = re.findall(r"^    #(?: via|  ) +([\w.-]+)(?: .*)?$", entry, flags=re.MULTILINE)
            hashes = tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
            found.append(Locked(pinned.name, version, tuple(name for name in names if name != "-c"), hashes))
    return found


def _applies(marker: Marker) -> bool:
    system = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    python = {"platform_python_implementation": "CPython", "implementation_name": "cpython"}
    return any(
        marker.evaluate(
            {**system, **python, "platform_machine": machine, "python_version": each, "python_full_version": f"{each}.0"}
        )
        for each in PYTHONS
        for machine in MACHINES
    )


def licence(name: str) -> str:
    """As the package's metadata says it, in the newest of the three ways there are."""
    about = metadata.metadata(name)
    if stated := about.get("License-Expression"):
        return stated
    classified = [each.rpartition(" :: ")[2] for each in about.get_all("Classifier", []) if each.startswith("License :: ")]
    short = (about.get("License") or "").strip().partition("\n")[0]
    return " AND ".join(each for each in classified if each != "OSI Approved") or short or "unknown"


def describe(locked: list[Locked], licences: dict[str, str], about: dict[str, Any]) -> dict[str, Any]:
    """The SBOM. It has no date and no serial number: the same lock gives the same file."""
    ours = f"pkg:pypi/sandlot@{about['version']}"
    references: dict[str, list[str]] = {"sandlot": [ours]}
    for each in locked:  # a package may be locked at one version for older Pythons and at another for newer
        references.setdefault(canonicalize_name(each.name), []).append(f"pkg:pypi/{each.name}@{each.version}")
    needs: dict[str, set[str]] = {reference: set() for found in references.values() for reference in found}
    for each in locked:
        for wanting in each.wanted_by:
            for reference in references.get(canonicalize_name(wanting), ()):
                needs[reference].add(f"pkg:pypi/{each.name}@{each.version}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library", "bom-ref": ours, "name": "sandlot", "version": about["version"], "purl": ours,
                "licenses": [{"expression": about["license"]}],
            },
            "properties": [{"name": "sandlot:without-hash", "value": WITHOUT_HASH}],
        },
        "components": [
            {
                "type": "library", "bom-ref": f"pkg:pypi/{each.name}@{each.version}", "name": each.name, "version": each.version,
                "purl": f"pkg:pypi/{each.name}@{each.version}", "licenses": [{"license": {"name": licences[each.name]}}],
                "hashes": [{"alg": "SHA-256", "content": content} for content in each.hashes],
            }
            for each in locked
        ],
        "dependencies": [{"ref": reference, "dependsOn": sorted(wanted)} for reference, wanted in needs.items()],
    }  # fmt: skip


def main() -> None:
    """Write both files."""
    about = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
    locked = read_lock(LOCK.read_text())
    licences = {each.name: licence(each.name) for each in locked}
    text = json.dumps(describe(locked, licences, about), indent=1) + "\n"
    SBOM.write_text(re.sub(r'\{\s*("alg": "SHA-256"),\s*("content": "\w+")\s*\}', r"{\1, \2}", text))  # a hash is a line
    NOTICES.write_text(HEAD + "".join(f"| {each.name} | {each.version} | {licences[each.name]} |\n" for each in locked))


if __name__ == "__main__":
    main()
