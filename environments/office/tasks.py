"""The tasks: four of each family, from one seed. The last of each family is held out."""

from random import Random

from .catalogue import EACH, FAMILIES


def tasks(rng: Random):
    for family, (make, _) in FAMILIES.items():
        for number in range(1, EACH + 1):
            split = "heldout" if number == EACH else "train"
            yield make(Random(rng.getrandbits(64))).task(f"{family}-{number}", family, split)
