import zipfile

import pytest

from sandlot.interop.repositories.site_folder import install, install_together


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """A file that exists if something of the current folder was run: source distributions, and modules that hide our own."""
    here, ran = tmp_path / "here", tmp_path / "ran"
    here.mkdir()
    code = f"open({str(ran)!r}, 'a').write(__file__)\n"
    for name in ("pip", "compileall"):
        (here / f"{name}.py").write_text(code)
    setup = code + "from setuptools import setup\nsetup(name='evil', version='1')\n"
    with zipfile.ZipFile(here / "evil.zip", "w") as archive:
        archive.writestr("evil-1/setup.py", setup)
    (here / "evil").mkdir()
    (here / "evil" / "setup.py").write_text(setup)
    monkeypatch.chdir(here)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PYTHONPATH", str(here))
    return ran


@pytest.mark.parametrize("requirement", ["evil.zip", "evil", "evil[x]"])
def test_a_requirement_is_looked_for_in_the_index_only(requirement, ran, tmp_path):
    assert not install_together((requirement,), tmp_path / "site", "3.11")
    assert not ran.exists()


def test_what_could_not_be_installed_is_named_when_each_was_tried_alone(ran, tmp_path):
    assert install(("evil",), tmp_path / "site", "3.11") == ["evil"]
    assert not ran.exists()


@pytest.mark.parametrize(
    "form", ["evil @ file://{}/evil.zip", "evil@file://{}/evil", "./evil", "{}/evil", "-e ./evil", "evil --pre"]
)
def test_addresses_paths_and_options_are_not_installed(form, ran, tmp_path):
    assert install((form.format(tmp_path / "here"),), tmp_path / "site", "3.11") == []
    assert not ran.exists()


def test_older_libraries_can_be_asked_for_with_constraints_of_pip(tmp_path, monkeypatch):
    for version in ("1.0", "2.0"):
        about = f"demo-{version}.dist-info"
        with zipfile.ZipFile(tmp_path / f"demo-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: demo\nVersion: {version}\n")
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{about}/RECORD", "")
    (tmp_path / "older.txt").write_text("demo<2\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "older.txt"))
    assert install(("demo",), tmp_path / "site", "3.11") == []
    assert [path.name for path in (tmp_path / "site").glob("*.dist-info")] == ["demo-1.0.dist-info"]
