"""The source tree stays easy to find one's way in. `python tests/structure.py` prints the whole table."""

import pytest

import structure


@pytest.fixture(scope="module")
def modules() -> list[structure.Module]:
    """Not a constant of this file: a million objects that lived on would slow down the garbage collection of every other test."""
    return structure.modules_of(structure.ROOT)


def test_the_top_folder_has_few_entries():
    assert len(structure.entries_of(structure.ROOT)) <= 26


def test_a_public_class_name_exists_once(modules):
    assert structure.repeated_classes(modules) == {}


def test_no_modules_import_each_other_in_a_circle(modules):
    assert structure.cycles_of(structure.imports_of(modules)) == []


def test_functions_fit_a_screen(modules):
    assert [found for found in structure.functions_of(modules) if found[1] > structure.LONG_FUNCTION] == []


def test_few_files_are_crumbs(modules):
    assert len(structure.small_files(modules)) <= 15


def test_what_only_one_file_uses_is_private(modules):
    lines = sum(module.lines for module in modules)
    public = sum(len(structure.public_names_of(module)) for module in modules)
    assert 1000 * public / lines <= 30
