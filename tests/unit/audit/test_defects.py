"""The list of defects: complete, and as the guide and the probes use it."""

import re
from pathlib import Path

from sandlot.audit.audit import ALL_PROBES
from sandlot.audit.defects import DEFECTS
from sandlot.audit.probes.played import health, labels

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "audit.md").read_text()


def test_every_code_that_a_probe_may_find_is_a_known_defect():
    codes = {code for probe in ALL_PROBES for code in probe.codes} | {*health.CODES.values(), *labels.CODES.values()}
    assert codes == set(DEFECTS)


def test_every_defect_says_what_it_teaches_and_how_to_fix_it():
    assert [code for code, defect in DEFECTS.items() if not (defect.name and defect.harm and defect.fix)] == []


def test_the_guide_gives_the_first_and_last_code():
    assert re.search(r"codes, (D\d\d) to (D\d\d),", GUIDE).groups() == (min(DEFECTS), max(DEFECTS))


def test_every_probe_says_in_a_sentence_what_must_hold():
    assert [probe.name for probe in ALL_PROBES if not (probe.look.__doc__ or "").partition("\n")[0].endswith(".")] == []
