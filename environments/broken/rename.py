"""Copy the gallery with every name replaced: `python environments/broken/rename.py OUT --seed 1`.

Environments, folders, files, task ids, functions, variables, tools, arguments, checks, classes and the fields of state, data and
keys get made-up names, the same in code, prompts, golden solutions and production manifests. Comments are removed. Only the
behaviour stays, so an auditor that finds less in the copy relied on names. `OUT/index.json` maps the new names to the old.

Kept are names that Sandlot uses (`world`, `evidence`, `task`, the members of a tool class), fields that a data file or a prompt
mentions, and the texts of prompts and of files inside the worlds.
"""

import argparse
import ast
import json
import keyword
import re
import shutil
import tomllib
from collections.abc import Iterable
from pathlib import Path
from random import Random

HERE = Path(__file__).parent
BY_CONTRACT = {"world", "evidence", "task", "agent", "self", "cls", "bash", "command", "__builtins__", "state", "answer"}
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"


class Words:
    """Unique made-up words that are not Python keywords or built-ins."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._given = {*keyword.kwlist, *keyword.softkwlist, *dir(__builtins__)}

    def like(self, name: str) -> str:
        """A new word in the case style of the old one: CONSTANT, Class or name."""
        while True:
            word = "".join(self._rng.choice(CONSONANTS) + self._rng.choice(VOWELS) for _ in range(self._rng.randrange(2, 5)))
            word = word.upper() if name.isupper() else word.capitalize() if name[:1].isupper() else word
            if word not in self._given:
                self._given.add(word)
                return word


class Chosen(ast.NodeVisitor):
    """Collects the names that the author chose."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.functions: set[str] = set()
        self.spoken: set[str] = set()
        """Names that also occur in texts: tools, their arguments, checks."""
        self.fields: set[str] = set()
        """Constants used as keys."""
        self.prose: set[str] = set()
        """Words of longer texts."""
        self.imported: set[str] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.names.add(node.name)
        for member in node.body:  # its members are known to others by name
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                self.visit(member.args)
                for statement in member.body:
                    self.visit(statement)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.names.add(node.name)
        self.functions.add(node.name)
        marks = {part.attr for mark in node.decorator_list for part in ast.walk(mark) if isinstance(part, ast.Attribute)}
        if marks & {"tool", "check"}:
            self.spoken.add(node.name)
        if "tool" in marks:
            self.spoken |= {argument.arg for argument in node.args.args}
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the names `ast` looks for

    def visit_arg(self, node: ast.arg) -> None:
        self.names.add(node.arg)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.names.add(node.id)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.names |= {node.name} if node.name else set()
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _is_agent_call(node):
            self.spoken |= {word.arg for word in node.keywords if word.arg}
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"get", "pop", "setdefault"} and node.args:
            self._note_field(node.args[0])
        for word in node.keywords:
            if word.arg in {"id", "name"} and isinstance(word.value, ast.Constant) and isinstance(word.value.value, str):
                self.spoken.add(word.value.value)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._note_field(node.slice)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and " " in node.value:
            self.prose |= set(re.findall(r"\w+", node.value.lower()))

    def _note_field(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier() and node.value.islower():
            self.fields.add(node.value)

    def visit_alias(self, node: ast.alias) -> None:
        self.imported.add((node.asname or node.name).partition(".")[0])


class Renaming(ast.NodeTransformer):
    """Replaces the old names by the new ones."""

    def __init__(self, names: dict[str, str], spoken: dict[str, str], functions: set[str], words: Words) -> None:
        self._names = names
        self._spoken = spoken
        self._functions = functions
        self._words = words

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._names.get(node.arg, node.arg)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.name = self._names.get(node.name, node.name)
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - as above

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        members = [member for member in node.body if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)]
        kept = [member.name for member in members]
        self.generic_visit(node)
        node.name = self._names.get(node.name, node.name)
        for member, name in zip(members, kept, strict=True):
            member.name = name
        for member in node.body:
            if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                member.target.id = next((old for old, new in self._names.items() if new == member.target.id), member.target.id)
        return node

    def visit_Global(self, node: ast.Global) -> ast.Global:
        node.names = [self._names.get(name, name) for name in node.names]
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = self._names.get(node.name, node.name) if node.name else None
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if called in {"Task", "Environment", "environment"}:
            self._rename_id(node.args[0])
        if _is_agent_call(node) or called in self._functions:
            for word in node.keywords:
                word.arg = self._spoken.get(word.arg, self._names.get(word.arg, word.arg)) if word.arg else None
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            node.value = reworded(node.value, self._spoken)
        return node

    def _rename_id(self, node: ast.expr) -> None:
        """The words of an id: a whole constant, or the part of an f-string before its first number."""
        first = node.values[0] if isinstance(node, ast.JoinedStr) else node
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            first.value = re.sub(r"[A-Za-z]+", lambda match: self._words.like(match[0].lower()), first.value)


def reworded(text: str, spoken: dict[str, str]) -> str:
    """A text with the new names of tools, arguments and checks, where it clearly means them."""
    if text in spoken:
        return spoken[text]
    for old, new in spoken.items():
        text = text.replace(f"`{old}`", f"`{new}`").replace(f"{{{old}}}", f"{{{new}}}")
        if "_" in old:
            text = re.sub(rf"\b{re.escape(old)}\b", new, text)
    return text


def renamed(sources: dict[str, str], kept: Iterable[str], words: Words) -> tuple[dict[str, str], dict[str, str]]:
    """A folder's Python files with new names, and the new names that also occur in texts."""
    trees = {file: ast.parse(text) for file, text in sources.items()}  # noqa: TID251
    chosen = Chosen()
    for tree in trees.values():
        chosen.visit(tree)
    left = BY_CONTRACT | chosen.imported | set(kept)
    texts = chosen.spoken | (chosen.fields - chosen.prose)
    new = {name: words.like(name) for name in sorted(chosen.names | texts) if name not in left}
    spoken = {name: new[name] for name in sorted(texts) if name in new}
    names = {name: new[name] for name in sorted(chosen.names) if name in new}
    written = {
        file: ast.unparse(ast.fix_missing_locations(Renaming(names, spoken, chosen.functions, words).visit(tree))) + "\n"
        for file, tree in trees.items()
    }
    return written, spoken


def copy_folder(folder: Path, out: Path, words: Words) -> dict[str, str]:
    """Copy one folder; returns the new names of its parts."""
    said = tomllib.loads((folder / "defect.toml").read_text(encoding="utf-8"))
    fields: set[str] = set()
    if "reference" in said:
        fields = set(json.loads((folder / said["reference"]).read_text(encoding="utf-8").splitlines()[0])) | {said["records"]}
    sources = {twin: (folder / f"{twin}.py").read_text(encoding="utf-8") for twin in ("broken", "clean")}
    texts, spoken = renamed(sources, fields, words)
    made = out / words.like("folder")
    made.mkdir(parents=True)
    entry = {"of": folder.name, "folder": made.name}
    for twin, text in texts.items():
        entry[twin] = f"{words.like(twin)}.py"
        (made / entry[twin]).write_text(text, encoding="utf-8")
    if "reference" in said:
        entry["reference"] = f"{words.like('reference')}.jsonl"
        shutil.copy(folder / said["reference"], made / entry["reference"])
    if "manifest" in said:
        entry["manifest"] = f"{words.like('manifest')}.json"
        served = json.loads((folder / said["manifest"]).read_text(encoding="utf-8"))
        (made / entry["manifest"]).write_text(json.dumps(_served(served, spoken), indent=2), encoding="utf-8")
    return entry | {name: said[name] for name in ("code", "judge") if name in said}


def _served(tools: list[dict], spoken: dict[str, str]) -> list[dict]:
    for tool in tools:
        schema = tool["inputSchema"]
        tool["name"] = spoken.get(tool["name"], tool["name"])
        schema["properties"] = {spoken.get(name, name): field for name, field in schema["properties"].items()}
        schema["required"] = [spoken.get(name, name) for name in schema["required"]]
    return tools


def _is_agent_call(node: ast.Call) -> bool:
    owner = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "call" else None
    return isinstance(owner, ast.Name) and owner.id == "agent"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a folder that is not there yet")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other names")
    asked = parser.parse_args()
    words = Words(asked.seed)
    asked.out.mkdir(parents=True)
    index = [copy_folder(path.parent, asked.out, words) for path in sorted(HERE.glob("*/defect.toml"))]
    (asked.out / "index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
