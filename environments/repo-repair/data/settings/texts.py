"""Settings written as text."""

import re

from .layers import get, put

TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def boolean(text):
    """Yes or no, as people write it; anything else is refused."""
    word = text.strip().lower()
    if word in TRUE:
        return True
    if word in FALSE:
        return False
    raise ValueError(f"neither yes nor no: {text!r}")


def parse(lines, comment="#"):
    """`name = value` lines as a tree; dots make tables, later lines win, comments may follow a value."""
    tree = {}
    for line in lines:
        bare = line.split(comment, 1)[0].strip()
        if bare:
            name, _, value = bare.partition("=")
            tree = put(tree, name.strip(), value.strip())
    return tree


def fill(text, tree):
    """The text with every `${a.b}` replaced by its setting; unknown ones stay."""
    return re.sub(r"\$\{([^}]*)\}", lambda found: str(get(tree, found[1], found[0])), text)


def overrides(prefix, variables):
    """Environment variables `PREFIX_A__B` as a tree of settings `a.b`."""
    tree = {}
    for name in sorted(variables):
        if name.startswith(f"{prefix}_"):
            path = name[len(prefix) + 1 :].lower().replace("__", ".")
            tree = put(tree, path, variables[name])
    return tree


def size(text):
    """Bytes of `10`, `10k`, `3M` or `1G`, by powers of 1024."""
    number, unit = re.fullmatch(r"(\d+)([kMG]?)", text.strip()).groups()
    return int(number) * 1024 ** ("kMG".index(unit) + 1 if unit else 0)
