"""The frameworks we compare with, each in a virtual environment of its own outside the repository, at a pinned version.

They are never dependencies of Sandlot. Environments are made once with `uv` and kept in `~/.cache/sandlot-bench` (or
`$SANDLOT_BENCH_CACHE`), with a Python of the version that runs the benchmark. Deleting that folder undoes everything.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from report import say

CACHE = Path(os.environ.get("SANDLOT_BENCH_CACHE", "~/.cache/sandlot-bench")).expanduser()
PEERS = Path(__file__).parent / "peer_tasks"


@dataclass(frozen=True, slots=True)
class Peer:
    """A framework by name, and what `pip` would be told to install."""

    name: str
    requirements: tuple[str, ...]
    alone: tuple[str, ...] = ()
    """Installed without its dependencies, which are not needed here."""

    def bin(self, command: str) -> Path:
        return CACHE / self.name / "bin" / command


INSPECT = Peer("inspect", ("inspect-ai==0.3.285", "openai"))
VERIFIERS = Peer("verifiers", ("verifiers==0.4.0",))
TRL = Peer("trl", ("torch==2.13.0", "trl==1.16.0", "datasets==5.2.0", "-e", f"{PEERS.parent.parent}[torch]"))
"""With Sandlot beside it, for rollouts that TRL has no way to play."""


def ready(peer: Peer) -> Peer:
    """Install it unless it is there already at these versions."""
    folder = CACHE / peer.name
    stamp = folder / "requirements.txt"
    wanted = "\n".join((*peer.requirements, *peer.alone))
    if stamp.exists() and stamp.read_text() == wanted:
        return peer
    say(f"installing {', '.join(peer.requirements)} in {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    uv = _uv()
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder], check=True)
    install = [uv, "pip", "install", "-q", "--compile-bytecode", "--python", peer.bin("python")]
    if peer.requirements:
        subprocess.run([*install, *peer.requirements], check=True)
    if peer.alone:
        subprocess.run([*install, "--no-deps", *peer.alone], check=True)
    stamp.write_text(wanted)
    return peer


def _uv() -> Path:
    """`uv` from here, from the path, or from a virtual environment of its own in the cache."""
    for found in (Path(sys.executable).with_name("uv"), shutil.which("uv"), CACHE / "uv" / "bin" / "uv"):
        if found and Path(found).exists():
            return Path(found)
    subprocess.run([sys.executable, "-m", "venv", CACHE / "uv"], check=True)
    subprocess.run([CACHE / "uv" / "bin" / "pip", "install", "-q", "uv"], check=True)
    return CACHE / "uv" / "bin" / "uv"
