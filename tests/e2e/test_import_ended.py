"""An import that is ended leaves nothing half-written, under SIGTERM and Ctrl-C; after a kill `gc` lists what was left."""

import os
import signal

import pytest

IMPORTER = """
import os, signal

class Ended:
    kind = "ended"

    def digest(self, source, *, limit):
        return "1"

    def write(self, source, folder, *, limit):
        (folder / "tasks").mkdir()
        os.kill(os.getpid(), getattr(signal, source))
        signal.pause()
"""


@pytest.fixture
def importer(tmp_path):
    """A package with an importer that is sent a signal while it writes."""
    installed = tmp_path / "installed"
    info = installed / "ended_importer-1.0.dist-info"
    info.mkdir(parents=True)
    (installed / "ended_importer.py").write_text(IMPORTER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ended-importer\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sandlot.importers]\nended = ended_importer:Ended\n")
    return {"PYTHONPATH": f"{installed}:{os.environ.get('PYTHONPATH', '')}"}


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", -signal.SIGTERM), ("SIGINT", 130)])
def test_a_signal_ends_an_import_without_a_trace_of_it(sandlot, importer, tmp_path, name, code):
    place = tmp_path / "here"
    place.mkdir()
    done = sandlot("import", "ended", name, "--out", "made", cwd=place, **importer)
    assert (done.code, list(place.iterdir())) == (code, []), done.err
    assert "Traceback" not in done.err


def test_what_a_killed_import_left_is_listed_and_removed_by_gc(sandlot, importer, tmp_path):
    place = tmp_path / "here"
    place.mkdir()
    assert sandlot("import", "ended", "SIGKILL", "--out", "made", cwd=place, **importer).code == -signal.SIGKILL
    (draft,) = place.iterdir()
    listed = sandlot("gc", cwd=place)
    assert (listed.code, str(draft) in listed.out, "a half-written folder" in listed.out) == (0, True, True)
    assert draft.is_dir()
    assert [each["path"] for each in sandlot("gc", "--delete", "--json", cwd=place).json["removable"]] == [str(draft)]
    assert list(place.iterdir()) == []
