"""The source tree stays easy to find one's way in. `python tests/structure.py` prints the whole table."""

from pathlib import Path

import structure


def test_the_top_folder_has_few_entries():
    assert len(structure.entries_of(structure.ROOT)) <= 27


def test_the_tree_has_no_circles_no_class_name_twice_no_long_function_and_few_crumbs():
    """One test, because reading a thousand files is what it costs."""
    modules = structure.modules_of(structure.ROOT)
    assert structure.repeated_classes(modules) == {}
    assert structure.cycles_of(structure.imports_of(modules)) == []
    assert structure.long_functions(modules) == []
    assert len(structure.small_files(modules)) <= 15
    assert structure.public_names_per_1000_lines(modules) <= 30  # what only one file uses is private


TREE = {
    "__init__.py": "",
    "first.py": """
import pkg.second

LIMIT: int = 1
_hidden = 2

class Twice:
    def method(self):
        if LIMIT:
            from pkg.deep import Deep
""",
    "second.py": """
def plain():
    try:
        pass
    except ValueError:
        from . import first

class Twice: ...
""",
    "deep.py": "from pkg.first import LIMIT\n\nclass Deep: ...\nclass _Twice: ...\n" + "def long():\n" + "    pass\n" * 60,
}


def test_what_is_measured_is_found_in_a_small_tree(tmp_path):
    root = tmp_path / "pkg"
    root.mkdir()
    for name, text in TREE.items():
        Path(root, name).write_text(text)
    modules = structure.modules_of(root)
    assert structure.repeated_classes(modules) == {"Twice": ["pkg.first", "pkg.second"]}
    assert structure.cycles_of(structure.imports_of(modules)) == [["pkg.deep", "pkg.first"]]
    assert structure.long_functions(modules) == [("pkg.deep.long", 61)]
    assert structure.small_files(modules) == ["pkg.first", "pkg.second"]
    assert [module.name for module in modules if module.relative] == ["pkg.second"]
    assert {name for module in modules for name in module.public} == {"LIMIT", "Twice", "plain", "Deep", "long"}
