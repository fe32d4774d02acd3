"""Bundles: the same bytes each time, whole when unpacked, and refused if anything in them is not as it should be."""

import hashlib
import io
import json
import stat
import zipfile

import pytest

import sandlot
from sandlot.audit.reports.folder import FILE, as_json, folder_of
from sandlot.core.errors import ConfigError
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.interop.bundles.pack import pack_environment, zip_bytes
from sandlot.interop.bundles.unpack import unpack_bundle
from sandlot.interop.bundles.wheel import write_wheel
from sandlot.interop.sheets.template import write_template


@pytest.fixture
def env(tmp_path):
    write_template(tmp_path / "demo.xlsx")
    sandlot.import_environment("sheet", str(tmp_path / "demo.xlsx"), tmp_path / "demo")
    (tmp_path / "demo" / "LICENSE").write_text("MIT")
    (tmp_path / "demo" / "run.sh").write_text("true\n")
    (tmp_path / "demo" / "run.sh").chmod(0o755)
    (tmp_path / "demo" / ".env").write_text("KEY=secret")
    (tmp_path / "demo" / "__pycache__").mkdir()
    (tmp_path / "demo" / "__pycache__" / "x.pyc").write_bytes(b"x")
    return tmp_path / "demo"


def packed(env, name="a.sandlot", **options):
    return pack_environment(env, env.parent / name, runs=env.parent / "runs", **options)


def test_a_bundle_is_the_same_each_time_and_unpacks_to_the_same_environment(env, tmp_path):
    first, second = packed(env), packed(env, "b.sandlot")
    assert first.sha256 == second.sha256 == hashlib.sha256((tmp_path / "a.sandlot").read_bytes()).hexdigest()
    manifest = unpack_bundle(tmp_path / "a.sandlot", tmp_path / "out", sha256=first.sha256)
    before, after = sandlot.load(env), sandlot.load(tmp_path / "out")
    assert environment_fingerprint(after) == environment_fingerprint(before) == manifest.fingerprint
    assert sorted(path.name for path in (tmp_path / "out" / "docs" / "bundle").iterdir()) == ["CARD.md", "bundle.json"]
    assert (tmp_path / "out" / "run.sh").stat().st_mode & stat.S_IXUSR
    assert not (tmp_path / "out" / ".env").exists()
    assert not (tmp_path / "out" / "__pycache__").exists()
    assert sandlot.run(tmp_path / "out", "scripted:golden", runs=tmp_path / "runs").summary().score.value == 1.0
    again = pack_environment(tmp_path / "out", tmp_path / "c.sandlot")
    assert again.sha256 == first.sha256


def test_the_card_has_facts(env, tmp_path):
    packed(env)
    card = zipfile.ZipFile(tmp_path / "a.sandlot").read("CARD.md").decode()
    assert "| tasks | 3 (1 heldout, 2 train) |" in card
    assert "| licences | see `LICENSE`; 3 tasks: unknown |" in card
    assert "Not audited as it is now." in card


def test_an_audit_is_included_only_if_it_is_of_these_files(env, tmp_path):
    audit = sandlot.audit(str(env), limit=1, layers=["static"], runs=tmp_path / "partial")
    folder = folder_of(audit.name, audit.place, tmp_path / "runs")
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(as_json(audit))  # as a whole audit is kept
    assert packed(env).manifest.audit in {"SHIP", "FIX", "INCOMPLETE"}
    kept = zipfile.ZipFile(tmp_path / "a.sandlot").read("audit.json").decode()
    assert str(tmp_path) not in json.dumps([json.loads(kept)["place"], json.loads(kept)["subject"]])
    (env / "world.py").write_text((env / "world.py").read_text() + "\n# changed\n")
    assert packed(env, "b.sandlot").manifest.audit is None


@pytest.mark.system
def test_a_whole_audit_is_found_where_it_was_kept(env, tmp_path):
    sandlot.audit(str(env), limit=1, runs=tmp_path / "runs")
    assert packed(env).manifest.audit in {"SHIP", "FIX", "INCOMPLETE"}


def test_a_calibration_is_included(env, tmp_path):
    (tmp_path / "c.json").write_text('{"tasks": []}')
    assert "calibration.json" in packed(env, calibration=tmp_path / "c.json").manifest.files
    (tmp_path / "d.json").write_text("[]")
    with pytest.raises(ConfigError, match="not a calibration"):
        packed(env, "b.sandlot", calibration=tmp_path / "d.json")


def test_keys_and_links_are_not_packed(env, tmp_path):
    (env / "notes.txt").write_text("use sk-abcdefghijklmnop1234")
    with pytest.raises(ConfigError, match=r"`notes.txt` holds a secret of the kind `api_key`"):
        packed(env)
    (env / "notes.txt").unlink()
    (env / "link").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="is a link"):
        packed(env)
    (env / "link").unlink()
    packed(env)
    with pytest.raises(ConfigError, match="already exists"):
        packed(env)


def changed(path, change) -> bytes:
    """The bundle with its parts changed, and a manifest that agrees unless `change` says otherwise."""
    with zipfile.ZipFile(path) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    change(parts)
    return zip_bytes(parts)


def listed(parts, name, data):
    """Add a file also to the manifest."""
    manifest = json.loads(parts["bundle.json"])
    manifest["files"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    parts["bundle.json"] = json.dumps(manifest).encode()
    parts[name] = data


ATTACKS = {
    "a changed file": (lambda parts: parts.update({"environment/world.py": b"import os"}), "not as the manifest says"),
    "a file more": (lambda parts: parts.update({"environment/more.py": b"x"}), "manifest"),
    "a file less": (lambda parts: parts.pop("environment/world.py"), "manifest"),
    "no manifest": (lambda parts: parts.pop("bundle.json"), "no `bundle.json`"),
    "a manifest of nonsense": (lambda parts: parts.update({"bundle.json": b"{"}), "cannot be read"),
    "another format": (
        lambda parts: parts.update({"bundle.json": parts["bundle.json"].replace(b'"format": 1', b'"format": 9')}),
        "format 9",
    ),
    "a file beside": (lambda parts: listed(parts, "setup.py", b"x"), "has no place"),
    "a forged card": (lambda parts: listed(parts, "environment/docs/bundle/CARD.md", b"x"), "has no place"),
    "a path above": (lambda parts: listed(parts, "environment/../../evil.py", b"x"), "manifest|outside"),
    "a path out": (lambda parts: listed(parts, "../evil.py", b"x"), "outside"),
    "an absolute path": (lambda parts: listed(parts, "/tmp/evil.py", b"x"), "outside"),
    "two names that differ in case": (lambda parts: listed(parts, "environment/WORLD.py", b"x"), "two files"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_bundle_that_was_changed_is_refused_and_nothing_is_written(env, tmp_path, name):
    change, why = ATTACKS[name]
    packed(env)
    (tmp_path / "evil.sandlot").write_bytes(changed(tmp_path / "a.sandlot", change))
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ConfigError, match=why):
        unpack_bundle(tmp_path / "evil.sandlot", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_links_bombs_and_what_is_no_archive_are_refused(env, tmp_path):
    packed(env)
    data = (tmp_path / "a.sandlot").read_bytes()
    out = io.BytesIO(data)
    with zipfile.ZipFile(out, "a") as archive:
        link = zipfile.ZipInfo("environment/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    for name, content, why in (
        ("link", out.getvalue(), "is a link"),
        ("cut", data[: len(data) // 2], "."),
        ("text", b"hello", "."),
        ("empty", b"", "."),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match=why):
            unpack_bundle(tmp_path / name, tmp_path / "out")
    with pytest.raises(ConfigError, match="another hash"):
        unpack_bundle(tmp_path / "a.sandlot", tmp_path / "out", sha256="0" * 64)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_not_replaced(env, tmp_path):
    packed(env)
    with pytest.raises(ConfigError, match="would be deleted"):
        unpack_bundle(tmp_path / "a.sandlot", env)


def test_code_of_a_bundle_does_not_run_when_it_is_unpacked(env, tmp_path):
    packed(env)
    marker = tmp_path / "ran"
    code = f"open({str(marker)!r}, 'w').close()\n".encode()
    (tmp_path / "evil.sandlot").write_bytes(
        changed(tmp_path / "a.sandlot", lambda parts: listed(parts, "environment/world.py", code))
    )
    unpack_bundle(tmp_path / "evil.sandlot", tmp_path / "out")
    assert not marker.exists()


def test_a_wheel_is_the_same_each_time_and_lists_its_files(env, tmp_path):
    path = write_wheel(env, tmp_path / "one", version="1.2.0")
    assert path.name == "sandlot_env_demo-1.2.0-py3-none-any.whl"
    assert path.read_bytes() == write_wheel(env, tmp_path / "two", version="1.2.0").read_bytes()
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        record = archive.read("sandlot_env_demo-1.2.0.dist-info/RECORD").decode()
        assert (
            archive.read("sandlot_env_demo-1.2.0.dist-info/entry_points.txt")
            == b"[sandlot.environments]\ndemo = sandlot_env_demo\n"
        )
    assert [line.split(",")[0] for line in record.splitlines()] == names
    with pytest.raises(ConfigError, match="not a version"):
        write_wheel(env, tmp_path, version="one")
    with pytest.raises(ConfigError, match=r"no `environment.toml`"):
        write_wheel("arithmetic", tmp_path)


def test_keys_are_found_in_wheels_and_calibrations_too(env, tmp_path):
    (tmp_path / "c.json").write_text('{"model": "sk-abcdefghijklmnop1234"}')
    with pytest.raises(ConfigError, match=r"`calibration.json` holds a secret"):
        packed(env, calibration=tmp_path / "c.json")
    (env / "notes.txt").write_text("use sk-abcdefghijklmnop1234")
    with pytest.raises(ConfigError, match=r"notes.txt` holds a secret"):
        write_wheel(env, tmp_path)
