"""What a build refuses before it makes its base."""

from typing import cast

import pytest

from sandlot.core.errors import ConfigError
from sandlot.sandbox.containerfile.build import build
from sandlot.sandbox.containerfile.parse import LAYER_MARK
from sandlot.sandbox.images.store import Lease

NO_LEASE = cast("Lease", None)
"""Nothing is stored: the file is refused first."""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("FROM debian AS one\nFROM debian\n", "several stages"),
        (f"FROM debian AS one\nRUN true\n{LAYER_MARK}\nRUN true\nFROM debian\nRUN true\n", "several stages"),
        ("FROM debian\nCOPY --from=example/tools /a /b\n", r"line 2: .*--from=example/tools"),
        (f"FROM debian\n{LAYER_MARK}\nADD https://example.org/x.gz /x\n", "asks for the network"),
        ("FROM debian\nONBUILD RUN true\n", "not supported"),
    ],
)
async def test_what_cannot_be_built_is_refused_before_the_base_is_made(tmp_path, monkeypatch, text, why):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "Containerfile").write_text(text)
    with pytest.raises(ConfigError, match=why):
        await build(tmp_path / "Containerfile", NO_LEASE)
    assert not (tmp_path / "cache").exists()
