"""Ports for programs that must be told theirs before they start."""

import random
import socket

_given: set[int] = set()
_chance = random.SystemRandom()  # the other test processes have the same seed as this one


def free_port() -> int:
    """A port that nothing listens on, each only once.

    It is below those that the kernel gives to whoever asks for any: a connection of another test cannot take it meanwhile.
    """
    while True:
        port = _chance.randrange(10_000, 32_000)
        if port in _given:
            continue
        _given.add(port)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
