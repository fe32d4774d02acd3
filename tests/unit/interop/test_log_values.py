"""Values of logs that someone wrote to do harm."""

from collections import Counter

from sandlot.interop.log_values import LoggedTaskNames


class Counted(Counter):
    """Counts how often a name was tried."""

    def __init__(self):
        super().__init__()
        self.tries = 0

    def __setitem__(self, key, value):
        self.tries += 1
        super().__setitem__(key, value)


def test_names_that_are_cut_to_the_same_are_told_apart_without_trying_all(tmp_path):
    names = LoggedTaskNames(repeats=Counted())
    texts = [f"{'x' * 112}{number:06d}" for number in range(300)]
    for text in texts:
        names.name_of((text, 1), text)
    given = {names.name_of((text, 2), text) for text in texts}
    assert len(given | set(names.given.values())) == 600
    assert names.repeats.tries == 300
