"""The source tree stays easy to find one's way in. `python tests/structure.py` prints the whole table."""

import structure

MODULES = structure.modules_of(structure.ROOT)


def test_the_top_folder_has_few_entries():
    assert len(structure.entries_of(structure.ROOT)) <= 26


def test_a_public_class_name_exists_once():
    assert structure.repeated_classes(MODULES) == {}


def test_no_modules_import_each_other_in_a_circle():
    assert structure.cycles_of(structure.imports_of(MODULES)) == []


def test_functions_fit_a_screen():
    assert [found for found in structure.functions_of(MODULES) if found[1] > structure.LONG_FUNCTION] == []


def test_few_files_are_crumbs():
    assert len(structure.small_files(MODULES)) <= 15


def test_what_only_one_file_uses_is_private():
    lines = sum(module.lines for module in MODULES)
    public = sum(len(structure.public_names_of(module)) for module in MODULES)
    assert 1000 * public / lines <= 30
