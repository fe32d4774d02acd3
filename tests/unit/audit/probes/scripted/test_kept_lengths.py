"""The fixed lengths that slices in the code of tools keep."""

from builders.static_cases import case_of
from sandlot.audit.probes.scripted.visibility import _kept_lengths
from sandlot.audit.probes.static.code import Code

TOOL = """
PAGE = 54

@env.tool
async def look(world: World) -> str:
    text = world.state
    return {shown}
"""


def kept(shown: str) -> set[int]:
    return _kept_lengths(Code(case_of(TOOL.format(shown=shown)).description))


def test_a_slice_from_the_start_keeps_its_length():
    assert kept("text[:60] + text[0:70] + text[:PAGE]") == {60, 70, 54}


def test_a_slice_of_no_fixed_length_keeps_none():
    assert kept("text[:] + text[:-1] + text[: len(text)] + text[:None] + text[60:] + text[:60:2]") == set()
