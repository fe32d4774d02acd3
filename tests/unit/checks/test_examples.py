"""Every example in the docstrings of `sandlot.checks` is run, and every check has one."""

import doctest
import importlib
import inspect
import pkgutil
from datetime import date
from fractions import Fraction

import pytest

import sandlot.checks
from builders.checked_evidence import example_evidence
from builders.evidence import make_evidence

MODULES = [found.name for found in pkgutil.iter_modules(sandlot.checks.__path__)]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    return example_evidence(tmp_path_factory.mktemp("repo"))


@pytest.mark.parametrize("name", [name for name in MODULES if name != "office"])
def test_the_examples_are_true(name, evidence):
    module = importlib.import_module(f"sandlot.checks.{name}")
    known = {"evidence": evidence, "answer": lambda text: make_evidence(answer=text), "Fraction": Fraction, "date": date}
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    for example in doctest.DocTestFinder(recurse=True).find(module, module.__name__, extraglobs=known):
        runner.run(example, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", sorted(sandlot.checks.LIBRARY))
def test_every_check_has_an_example_and_takes_the_evidence_first(name):
    check = sandlot.checks.LIBRARY[name]
    assert f">>> {name}(" in (inspect.getdoc(check) or "") or ".office." in check.__module__
    assert next(iter(inspect.signature(check).parameters)) == "evidence"


def test_the_door_hands_out_what_it_lists():
    assert all(getattr(sandlot.checks, name) is not None for name in sandlot.checks.__all__)
    own = {name for name, check in sandlot.checks.LIBRARY.items() if ".office." not in check.__module__}
    assert own <= set(dir(sandlot.checks))
    with pytest.raises(AttributeError, match="no check `file_eqals`"):
        _ = sandlot.checks.file_eqals
