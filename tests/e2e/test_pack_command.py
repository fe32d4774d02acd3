"""`sandlot pack` and `unpack`, and an environment that is installed as a wheel."""

import subprocess
import sys

from drive.command_line import refused, started


def test_pack_and_unpack(sandlot, tmp_path):
    assert sandlot("task", "new", "demo.csv", cwd=tmp_path).code == 0
    assert sandlot("import", "sheet", "demo.csv", "--out", "demo", "--no-audit", cwd=tmp_path).code == 0
    done = sandlot("pack", "demo", "--json", cwd=tmp_path)
    assert (done.code, done.json["file"]) == (0, "demo.sandlot")
    back = sandlot("unpack", "demo.sandlot", "--sha256", done.json["sha256"], "--json", cwd=tmp_path)
    assert (back.code, back.json["folder"]) == (0, "environments/demo")
    assert sandlot("run", "environments/demo", "--model", "scripted:golden", "--json", cwd=tmp_path).json["score"]["mean"] == 1.0
    assert "another hash" in refused(sandlot("unpack", "demo.sandlot", "--out", "x", "--sha256", "00", cwd=tmp_path))


def test_a_wheel_registers_the_environment_by_its_name(sandlot, tmp_path):
    assert sandlot("task", "new", "demo.csv", cwd=tmp_path).code == 0
    (tmp_path / "demo.settings.csv").write_text("Setting,Value\nname,quiz-of-an-expert\n")
    assert sandlot("import", "sheet", "demo.csv", "--out", "demo", "--no-audit", cwd=tmp_path).code == 0
    wheel = sandlot("pack", "demo", "--wheel", cwd=tmp_path).out.strip()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", "site", wheel]
    subprocess.run(install, cwd=tmp_path, check=True, capture_output=True)
    done = started(
        "run", "quiz-of-an-expert", "--model", "scripted:golden", "--json", cwd=tmp_path, PYTHONPATH=str(tmp_path / "site")
    )
    assert (done.code, done.json["score"]["mean"]) == (0, 1.0), done
