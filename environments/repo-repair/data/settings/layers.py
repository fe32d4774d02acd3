"""Layers of nested settings, later ones on top."""

import copy


def merge(*layers):
    """One tree of all layers: tables are merged, everything else is replaced. The layers themselves stay as they are."""
    result = {}
    for layer in layers:
        for name, value in layer.items():
            if isinstance(value, dict) and isinstance(result.get(name), dict):
                result[name] = merge(result[name], value)
            else:
                result[name] = copy.deepcopy(value)
    return result


def get(tree, path, default=None):
    """The value at `a.b.c`; the default only if it is not there."""
    for name in path.split("."):
        if not isinstance(tree, dict) or name not in tree:
            return default
        tree = tree[name]
    return tree


def put(tree, path, value):
    """A copy of the tree with the value at `a.b.c`."""
    name, dot, rest = path.partition(".")
    inner = tree.get(name) if isinstance(tree.get(name), dict) else {}
    return {**tree, name: put(inner, rest, value) if dot else value}


def flatten(tree, above=""):
    """`{"a": {"b": 1}}` as `{"a.b": 1}`; an empty table stays one."""
    flat = {}
    for name, value in tree.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, dict) and value:
            flat.update(flatten(value, path))
        else:
            flat[path] = value
    return flat
