"""What is installed with Sandlot: locked, described, and bounded where its internals are used."""

import importlib.util
import json
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INTERNALS = {"flash-attn-4", "mcp", "mcp-types", "torch", "uvicorn"}
"""Packages of which we use more than what they promise to keep: an upper bound says what was tried."""


def pins(name: str) -> dict[str, set[str]]:
    """Versions by package."""
    found: dict[str, set[str]] = {}
    for package, version in re.findall(r"^([\w.-]+)==([\w.+!-]+)", (REQUIREMENTS / name).read_text(), flags=re.MULTILINE):
        found.setdefault(canonicalize_name(package), set()).add(version)
    return found


def requirements(*extras: str) -> list[Requirement]:
    optional = PROJECT["optional-dependencies"]
    return [Requirement(each) for each in PROJECT["dependencies"] + [each for extra in extras for each in optional[extra]]]


def test_the_locks_meet_what_the_project_asks_for():
    for lock, extras in (("runtime.txt", ()), ("dev.txt", ("sql", "torch", "tensorboard", "dev"))):
        locked = {**pins(lock), **pins("torch.txt")}
        for wanted in requirements(*extras):
            if wanted.name != "sandlot":
                versions = locked.get(canonicalize_name(wanted.name))
                assert versions, f"`{wanted.name}` is not in requirements/{lock}: `make lock`"
                assert all(wanted.specifier.contains(version) for version in versions), (
                    f"{wanted} against {versions}: `make lock`"
                )


def test_runtime_and_development_are_locked_to_the_same_versions():
    development = pins("dev.txt")
    assert {name: versions for name, versions in pins("runtime.txt").items() if development[name] != versions} == {}


def test_every_locked_package_has_hashes_and_no_file_names_an_index():
    for path in (*REQUIREMENTS.glob("*.txt"), *REQUIREMENTS.glob("*.in")):
        text = path.read_text()
        assert "://" not in text, path
        assert "index" not in re.sub(r"^ *#.*$", "", text, flags=re.MULTILINE), path
    for name in ("runtime.txt", "dev.txt", "uv.txt"):
        entries = re.split(r"\n(?=[a-z0-9])", (REQUIREMENTS / name).read_text())[1:]
        assert entries
        assert [each for each in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}", each)] == []


def test_torch_is_pinned_apart_from_the_lock():
    assert set(pins("torch.txt")) == {"torch"}
    assert [name for name in pins("dev.txt") if name == "torch" or name.startswith("nvidia-")] == []


def test_the_sbom_and_the_licences_describe_the_lock():
    spec = importlib.util.spec_from_file_location("describe", REQUIREMENTS / "describe.py")
    assert spec is not None
    assert spec.loader is not None
    describe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(describe)
    locked = {(each.name, each.version) for each in describe.read_lock((REQUIREMENTS / "runtime.txt").read_text())}
    sbom = json.loads((REQUIREMENTS / "sandlot.cdx.json").read_text())
    assert {(each["name"], each["version"]) for each in sbom["components"]} == locked
    assert sbom["metadata"]["component"]["version"] == PROJECT["version"]
    references = {each["bom-ref"] for each in sbom["components"]}
    assert {each["ref"] for each in sbom["dependencies"][1:]} == references
    assert all(set(each["dependsOn"]) <= references for each in sbom["dependencies"])
    direct = {re.sub(r"pkg:pypi/|@.*", "", each) for each in sbom["dependencies"][0]["dependsOn"]}
    assert direct == {canonicalize_name(each.name) for each in requirements()}
    rows = re.findall(r"^\| ([\w.-]+) \| (\S+) \| (.+) \|$", (ROOT / "licenses/THIRD-PARTY.md").read_text(), flags=re.MULTILINE)
    assert {(name, version) for name, version, _ in rows if name != "package"} == locked
    assert [name for name, _, licence in rows if licence == "unknown"] == []


def test_packages_whose_internals_are_used_have_an_upper_bound():
    bounded = {
        canonicalize_name(each.name)
        for each in requirements("torch", "flash")
        if any(bound.operator in {"<", "<=", "==", "~="} for bound in each.specifier)
    }
    assert bounded == INTERNALS


def test_no_other_packages_internals_are_used():
    names = {canonicalize_name(each.name).replace("-", "_") for each in requirements("sql", "torch", "tensorboard", "dev")} - {
        "sandlot"
    }
    private = re.compile(
        rf"^\s*from ({'|'.join(names)})\b.* import .*\b_[a-z]|\b({'|'.join(names)})(?:\.\w+)*\._[a-z]", re.MULTILINE
    )
    used = {
        (canonicalize_name(found[1] or found[2]), path.name)
        for path in (ROOT / "src").rglob("*.py")
        for found in private.finditer(path.read_text())
    }
    assert {each for each in used if each[0] not in INTERNALS} == set()
    assert ("torch", "layers.py") in used  # the search finds what there is
