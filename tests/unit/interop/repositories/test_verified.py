from sandlot.interop.repositories.verified import whole_names


def test_names_cut_at_a_space_stand_for_all_that_begin_with_them():
    collected = ["t.py::a[x y]", "t.py::a[x[0] z]", "t.py::a[x z]", "t.py::a[xy z]", "t.py::a[ ]", "t.py::b", "t.py::b c[d e]"]
    named = ["t.py::a[x", "t.py::a[x[0]", "t.py::a[", "t.py::a[x y]", "t.py::b", "t.py::gone[x"]
    assert whole_names(named, collected) == {
        "t.py::a[x": ("t.py::a[x y]", "t.py::a[x z]"),
        "t.py::a[x[0]": ("t.py::a[x[0] z]",),
        "t.py::a[": ("t.py::a[ ]",),
        "t.py::a[x y]": ("t.py::a[x y]",),
        "t.py::b": ("t.py::b",),
        "t.py::gone[x": ("t.py::gone[x",),
    }
