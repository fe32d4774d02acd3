"""What the fingerprint of a setting covers: two settings that differ in any part of it cannot be compared."""

from typing import Any

import pytest

from sandlot import Constraint, Environment, Limits
from sandlot.core.ports.world import ToolSpec
from sandlot.env.fingerprint import setting_fingerprint

LOOK, WRITE = (ToolSpec(name=name, description="A tool.", parameters={"type": "object"}) for name in ("look", "write"))
SETTING = {"harness": "chat", "renderer": "qwen2"}


def print_of(*, environment: str = "e", tools: Any = (LOOK, WRITE), setting: Any = SETTING, **declared: Any) -> str:
    return setting_fingerprint(environment, Environment("made", **declared), tools, setting)


@pytest.mark.parametrize(
    "other",
    [
        {"environment": "f"},
        {"tools": (LOOK,)},
        {"tools": (LOOK, ToolSpec(name="write", description="Another.", parameters={"type": "object"}))},
        {"setting": SETTING | {"renderer": "llama3"}},
        {"setting": {"harness": "chat"}},
        {"system": "Be brief."},
        {"limits": Limits(turns=7)},
        {"limits": Limits(tool_s=7)},
        {"constraints": [Constraint(id="look-once", tool="look", at_most=1)]},
    ],
)
def test_another_part_gives_another_fingerprint(other):
    assert print_of(**other) != print_of()


def test_the_order_of_tools_and_of_names_does_not_count():
    assert print_of(tools=(WRITE, LOOK), setting=dict(reversed(SETTING.items()))) == print_of()
