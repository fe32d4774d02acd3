"""What a run's manifest says of the machine."""

from importlib.metadata import PackageNotFoundError, version

from sandlot.run import manifest


def test_a_machine_with_the_sources_alone_can_run(monkeypatch):
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    assert manifest.machine_facts()["sandlot"] == version("sandlot")
    monkeypatch.setattr(manifest, "version", missing)
    assert manifest.machine_facts()["sandlot"] == "not installed"
