#!/usr/bin/env python3
"""Connects this terminal to the console of a machine: `console PORT`. It is installed in the sandbox."""

import os
import select
import socket
import sys
import termios
import tty


def main() -> int:
    if not sys.stdin.isatty():
        sys.stderr.write("console: standard input is not a terminal\n")
        return 1
    before = termios.tcgetattr(0)
    line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    try:
        tty.setraw(0)
        while True:
            ready, _, _ = select.select([0, line], [], [])
            if line in ready:
                data = line.recv(65536)
                if not data:
                    return 0
                os.write(1, data)
            if 0 in ready:
                line.sendall(os.read(0, 4096))
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


sys.exit(main())
