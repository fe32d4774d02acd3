"""A store of limited size, a queue, and calls that are remembered."""


class Store:
    """Keeps the `size` things that were used last."""

    def __init__(self, size):
        self.size = size
        self.kept = {}

    def put(self, name, thing):
        """Keep it; if there is no room, what was not used for longest goes."""
        self.kept.pop(name, None)
        self.kept[name] = thing
        if len(self.kept) > self.size:
            del self.kept[next(iter(self.kept))]

    def get(self, name, default=None):
        """The thing, which counts as using it."""
        if name not in self.kept:
            return default
        thing = self.kept.pop(name)
        self.kept[name] = thing
        return thing


class Basket:
    """What somebody wants to buy: names and counts."""

    def __init__(self, items=None):
        self.items = dict(items) if items else {}

    def add(self, name, count=1):
        """Some more of it."""
        self.items[name] = self.items.get(name, 0) + count
        return self

    def remove(self, name, count=1):
        """Some less of it; nothing below zero is kept."""
        left = self.items.get(name, 0) - count
        if left > 0:
            self.items[name] = left
        else:
            self.items.pop(name, None)
        return self


class Queue:
    """First the urgent ones (a smaller number is more urgent), then in the order they came."""

    def __init__(self):
        self.waiting = []

    def push(self, thing, urgency=5):
        """Put it in line."""
        self.waiting.append((urgency, len(self.waiting), thing))

    def drain(self):
        """All of them in their order."""
        ordered = sorted(self.waiting, key=lambda each: (each[0], each[1]))
        self.waiting = []
        return [thing for _, _, thing in ordered]


def remembered(function):
    """The function, called once for the same arguments."""
    known = {}

    def call(*args, **named):
        key = (args, tuple(sorted(named.items())))
        if key not in known:
            known[key] = function(*args, **named)
        return known[key]

    return call
