"""Lists: pages, pieces, windows."""

import re


def page(items, number, size=10):
    """The items of a page; pages are counted from one."""
    return items[(number - 1) * size : number * size]


def pages(items, size=10):
    """How many pages there are."""
    return -(-len(items) // size)


def pieces(items, size):
    """The items in pieces of a size; the last one may be shorter."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def windows(items, size):
    """Every run of `size` neighbours."""
    return [items[start : start + size] for start in range(len(items) - size + 1)]


def unique(items, key=None):
    """The items without repetitions, in the order they first came."""
    seen, result = set(), []
    for item in items:
        mark = key(item) if key else item
        if mark not in seen:
            seen.add(mark)
            result.append(item)
    return result


def grouped(pairs, into=None):
    """Pairs (name, value) as name -> values; added to a copy of `into` if it is given."""
    result = {name: list(values) for name, values in (into or {}).items()}
    for name, value in pairs:
        result.setdefault(name, []).append(value)
    return result


def natural(names):
    """Names sorted the way people count: `file2` before `file10`."""
    return sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])
