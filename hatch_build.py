"""Wheels carry the sandbox program, the notice of the C library in it, and a list of what Sandlot depends on (SBOM).

The program is a static file, so the wheel fits every Linux with that processor. It is compiled when the wheel is made: for this
machine's processor, or for the one named in `SANDLOT_PROCESSOR` (`x86_64`, `aarch64`) by a cross compiler. Without a compiler the
wheel is made without the program, and says so: it is then compiled at first use, as from source. A wheel for a named processor is
not made without it. Editable installs always compile at first use.
"""

import importlib.util
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SANDBOX = Path("src/sandlot/sandbox")
NOTICES = Path("licenses")
SBOM = Path("requirements/sandlot.cdx.json")
LICENCES = {"musl": "MIT", "glibc": "LGPL-2.1-or-later"}
PROCESSOR = "SANDLOT_PROCESSOR"
"""Environment variable: the processor to make the wheel for."""


class CustomBuildHook(BuildHookInterface):
    """Puts the program into wheels."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile it, and say which machines the wheel is for."""
        if version == "editable" or self.target_name != "wheel":
            return
        root = Path(self.root)
        self._folder = tempfile.TemporaryDirectory()
        library = self._add_program(root, build_data)
        sbom = Path(self._folder.name) / SBOM.name
        sbom.write_text(_described((root / SBOM).read_text(), library))
        build_data["sbom_files"].append(str(sbom))

    def _add_program(self, root: Path, build_data: dict[str, Any]) -> str | None:
        """Compile it into the wheel; returns the C library that is linked into it, None if this wheel has no program."""
        compiling = _load(root / SANDBOX / "compile.py")
        named = os.environ.get(PROCESSOR)
        processor = named or platform.machine()
        if named and named not in compiling.PROCESSORS:
            raise ValueError(f"{PROCESSOR} is `{named}`; the sandbox program is for {' and '.join(compiling.PROCESSORS)}")
        if not named and (sys.platform != "linux" or processor not in compiling.PROCESSORS):
            return None
        sources = root / SANDBOX / "agent"
        built = Path(self._folder.name) / compiling.program_name(sources, processor)
        try:
            library = compiling.compile_program(sources, built, processor)
        except compiling.CompileError as error:
            if named:
                raise
            self.app.display_warning(f"this wheel has no sandbox program, it will be compiled at first use: {error}")
            return None
        inside = "sandlot/sandbox/agent/built"
        build_data["force_include"][str(built)] = f"{inside}/{built.name}"
        build_data["force_include"][str(root / NOTICES / f"{library}.txt")] = f"{inside}/NOTICE-{library}.txt"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_17_{processor}.manylinux2014_{processor}.musllinux_1_1_{processor}"
        return library

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - the hook's signature
        """Remove the compiled file; the wheel has it."""
        folder = getattr(self, "_folder", None)
        if folder is not None:
            folder.cleanup()


def _described(sbom: str, library: str | None) -> str:
    """The SBOM of this wheel: what it depends on, and the C library that is in it."""
    whole = json.loads(sbom)
    if library is not None:
        licences = [{"license": {"id": LICENCES[library]}}]
        whole["components"].append({"type": "library", "bom-ref": library, "name": library, "licenses": licences})
        whole["dependencies"][0]["dependsOn"].append(library)
    return json.dumps(whole, indent=1) + "\n"


def _load(path: Path) -> Any:
    """A module by its path: Sandlot itself cannot be imported while it is being built."""
    spec = importlib.util.spec_from_file_location("sandlot_compile", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
