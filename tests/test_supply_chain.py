"""What is installed with Sandlot: locked, described, and bounded where its internals are used."""

import importlib.util
import json
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INTERNALS = {"flash-attn-4", "mcp", "mcp-types", "torch", "uvicorn"}
"""Packages of which we use more than what they promise to keep: an upper bound says what was tried."""


FIXED = {
    "aiohttp": "3.13.4",  # CVE-2025-69228, CVE-2026-22815, CVE-2026-34516: memory without bound by parts, trailers and headers
    "h11": "0.16",  # CVE-2025-43859: chunked bodies are read as another server may not
    "jinja2": "3.1.6",  # CVE-2024-34064, CVE-2025-27516: attributes of `xmlattr`, the sandbox
    "mcp": "1.23",  # CVE-2025-66416: servers without protection against DNS rebinding
    "mlflow": "3.11",  # CVE-2026-2652, CVE-2026-4137: authentication, temporary folders
    "pyarrow": "23.0.1",  # CVE-2026-25087: use after free in the IPC reader
    "ray": "2.54",  # CVE-2025-62593, CVE-2026-27482: requests of web pages run and delete jobs
    "starlette": "1.0.1",  # CVE-2025-62727, CVE-2026-48710: ranges in quadratic time, a host that becomes a path
    "torch": "2.6",  # CVE-2025-32434: `torch.load(weights_only=True)` runs code
}
"""The first version of each package without the flaws that are public."""


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


def test_no_bound_and_no_lock_admits_a_version_with_a_known_flaw():
    asked = {canonicalize_name(each.name): each for each in requirements(*PROJECT["optional-dependencies"])}
    locked = {**pins("dev.txt"), **pins("torch.txt")}
    for name, fixed in FIXED.items():
        (lowest,) = (Version(bound.version) for bound in asked[name].specifier if bound.operator == ">=")
        assert lowest >= Version(fixed), f"{asked[name]}: {fixed} is the first version without a known flaw"
        assert all(Version(each) >= Version(fixed) for each in locked.get(name, ())), name


def test_the_sbom_has_the_hashes_of_the_lock_and_says_what_has_none():
    sbom = json.loads((REQUIREMENTS / "sandlot.cdx.json").read_text())
    lock = (REQUIREMENTS / "runtime.txt").read_text()
    for each in sbom["components"]:
        (entry,) = (
            part for part in re.split(r"\n(?=[a-z0-9])", lock) if part.startswith((f"{each['name']}=={each['version']} ",))
        )
        hashes = re.findall(r"sha256:([0-9a-f]{64})", entry)
        assert hashes
        assert [(given["alg"], given["content"]) for given in each["hashes"]] == [("SHA-256", given) for given in hashes]
    (said,) = sbom["metadata"]["properties"]
    assert said["name"] == "sandlot:without-hash"
    assert "torch" in said["value"]


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
