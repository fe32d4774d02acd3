"""What the agent is shown: the report of one symptom, and a test file that has it among things that work."""

from typing import Any

PROMPT = """In /work/repo there is a small Python package, `{package}`, with tests in `tests/` (run them there with
`python3 -m unittest discover -s tests -t .`). Something is wrong in it. Somebody reports that after

{code}

in `{module}`, `result` is not {value}.

Find the cause and fix it in the package, for all inputs and not only for these: it will be tried with others. The docstrings say
what is promised. Only the Python files below `/work/repo/{package}` are taken over."""


def prompt_of(package: str, case: dict[str, Any]) -> str:
    code = "\n".join(f"    {line}" for line in case["code"].splitlines())
    return PROMPT.format(package=package, code=code, module=case["module"], value=repr(python(case["value"])))


def test_file(package: str, cases: list[dict[str, Any]]) -> str:
    """A plain unittest module."""
    modules = sorted({case["module"] for case in cases})
    pieces = [
        "import unittest\n",
        *(f"import {module}" for module in modules),
        "",
        f"\nclass {package.title()}Test(unittest.TestCase):",
    ]
    for number, case in enumerate(cases, start=1):
        indented = "\n".join(f"            {line!r}," for line in case["code"].splitlines())
        pieces += [
            f"    def test_{case['name'].lower()}_{number}(self):",
            f"        names = dict(vars({case['module']}))",
        ]
        run = f'        exec("\\n".join([\n{indented}\n        ]), names)'
        if isinstance(case["value"], list) and case["value"][:1] == ["raises"]:
            pieces += [
                f"        with self.assertRaises({case['value'][1]}):",
                run.replace("        exec", "            exec", 1),
                "",
            ]
        else:
            pieces += [run, f"        self.assertEqual(names['result'], {python(case['value'])!r})", ""]
    return "\n".join([*pieces, "\nif __name__ == '__main__':\n    unittest.main()\n"])


def python(value: Any) -> Any:  # noqa: PLR0911 - one for each type there is
    """The value that the data in a case stands for."""
    if not isinstance(value, list):
        return value
    kind, *rest = value
    items = [python(item) for item in rest]
    match kind:
        case "list" | "tuple":
            return items if kind == "list" else tuple(items)
        case "dict":
            return dict(items)
        case "set":
            return set(items)
        case "float":
            return float(rest[0])
        case "bytes":
            return bytes.fromhex(rest[0])
        case _:
            return f"{kind} {rest[0]}"
