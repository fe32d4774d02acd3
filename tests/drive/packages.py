"""Python packages of others for tests, installed by uv where `make install` has it: a tenth of pip's work."""

import subprocess
import sys
from pathlib import Path

UV = Path(sys.executable).with_name("uv")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def make_environment(home: Path, *packages: str | Path) -> None:
    """A new virtual environment with these packages and what they say they need."""
    python = home / "bin" / "python"
    if UV.exists():
        _run(UV, "venv", "--quiet", "--clear", "--python", sys.executable, home)
        _run(UV, "pip", "install", "--quiet", "--python", python, *packages)
    else:
        _run(sys.executable, "-m", "venv", "--clear", home)
        _run(*PIP, "--python", python, "install", "--no-compile", *packages)


def install_below(folder: Path, *packages: str, version: str = VERSION) -> None:
    """These packages and what they need in a folder, for a Python of this version that is elsewhere."""
    options = ("--quiet", "--python-version", version, "--only-binary", ":all:", "--target", folder)
    if UV.exists():
        _run(UV, "pip", "install", "--python", sys.executable, *options, *packages)
    else:
        _run(*PIP, "install", "--no-compile", *options, *packages)


def _run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
