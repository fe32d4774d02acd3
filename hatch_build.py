"""Wheels carry the sandbox program: a static file for this machine's kind of processor, compiled when the wheel is made.

It depends on no C library, so the wheel fits every Linux with that processor. Without a compiler the wheel is made without the
program, and says so: it is then compiled at first use, as from source. Editable installs always do that.
"""

import importlib.util
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SANDBOX = Path("src/sandlot/sandbox")
PROCESSORS = {"x86_64", "aarch64"}
"""Those the system call filter knows."""


class CustomBuildHook(BuildHookInterface):
    """Puts the program into wheels."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile it, and say which machines the wheel is for."""
        processor = platform.machine()
        if version == "editable" or self.target_name != "wheel" or sys.platform != "linux" or processor not in PROCESSORS:
            return
        root = Path(self.root)
        compiling = _load(root / SANDBOX / "compile.py")
        sources = root / SANDBOX / "agent"
        self._folder = tempfile.TemporaryDirectory()
        built = Path(self._folder.name) / compiling.program_name(sources)
        try:
            compiling.compile_program(sources, built)
        except compiling.CompileError as error:
            self.app.display_warning(f"this wheel has no sandbox program, it will be compiled at first use: {error}")
            return
        build_data["force_include"][str(built)] = f"sandlot/sandbox/agent/built/{built.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_17_{processor}.manylinux2014_{processor}.musllinux_1_1_{processor}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - the hook's signature
        """Let the compiled file go; the wheel has it."""
        folder = getattr(self, "_folder", None)
        if folder is not None:
            folder.cleanup()


def _load(path: Path) -> Any:
    """A module by its path: Sandlot itself cannot be imported while it is being built."""
    spec = importlib.util.spec_from_file_location("sandlot_compile", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
