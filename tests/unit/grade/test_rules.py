"""Rubrics that were found sound are remembered by their checks, whatever the checks hold."""

import numpy as np
import pytest

from sandlot.core.errors import ConfigError
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.grade.rules import require_sound


def rubric_with(**fields) -> Rubric:
    return Rubric(checks=(PythonCheck(id="a", ref="checks:a", args={"wanted": np.arange(3)}, **fields),))


def test_arguments_that_cannot_be_compared_are_not():
    for _ in range(3):
        require_sound(rubric_with())


def test_an_unsound_rubric_is_refused_beside_a_sound_one_with_the_same_names():
    require_sound(rubric_with())
    with pytest.raises(ConfigError, match="missing"):
        require_sound(rubric_with(requires=("missing",)))
