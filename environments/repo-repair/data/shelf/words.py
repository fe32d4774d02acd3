"""Words: cutting, counting, naming."""

import re


def slug(title, separator="-"):
    """A title as a part of an address: lower case, words joined, nothing else."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    return separator.join(words)


def count_words(text):
    """How often each word occurs, whatever its case."""
    counts = {}
    for word in re.findall(r"[^\W\d_]+", text):
        key = word.casefold()
        counts[key] = counts.get(key, 0) + 1
    return counts


def initials(name):
    """The first letters of a name's parts, in capitals."""
    return "".join(part[0].upper() for part in name.split())


def truncate(text, limit, tail="..."):
    """At most `limit` characters; what was cut is shown by `tail`, which counts."""
    if len(text) <= limit:
        return text
    return text[: limit - len(tail)] + tail
