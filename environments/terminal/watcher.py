"""Watches the sandbox: which programs ended, and whether a file was emptied or can be executed.

It runs inside the sandbox, from a pipe, as `appliance.py` does: the environment sends this text and a last line with `main`.
When the agent has ended, the environment asks it on its port, with a word that nobody in the sandbox knows. It answers what it
saw, sealed with a key that only this process and the grader have. If it was killed by then, there is no such answer.
"""

import ctypes
import hashlib
import hmac
import json
import os
import select
import socket
import stat

ASKING_S = 5
SETTLING_MS = 200
"""A process that was just killed needs a moment until it has ended."""


def command_lines():
    """Process -> its parent and its command line; a fork that has not become its own program yet is left out."""
    found = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline") as line, open(f"/proc/{name}/stat") as about:
                words = line.read().split("\0")[:-1]
                found[name] = (about.read().rpartition(")")[2].split()[1], words)
        except (OSError, ValueError):
            continue
    return {pid: words for pid, (parent, words) in found.items() if words and words != found.get(parent, ("", []))[1]}


def is_emptied(holder):
    """True while the process has the file open, with nothing in it."""
    try:
        found = os.stat(f"/proc/{holder['pid']}/fd/7")
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == holder["file"] and found.st_size == 0


def is_stopped(names, watched, ended):
    return ended.issuperset(names) and not any(words in [watched[name] for name in names] for words in command_lines().values())


def is_executable(path):
    """True if the file's mode says so. It is read by this process: no program of the sandbox is asked."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def is_done(config, holder, watched, ended):
    if holder:
        return is_emptied(holder)
    if "executable" in config:
        return is_executable(config["executable"])
    return is_stopped(config["stopped"], watched, ended)


def sealed(config, state):
    text = json.dumps(state, sort_keys=True)
    seal = hmac.new(config["seal"].encode(), text.encode(), hashlib.sha256).hexdigest()
    return json.dumps({"state": state, "seal": seal})


def asked(connection, word):
    """True if whoever connected knows the word."""
    connection.settimeout(ASKING_S)
    try:
        return hmac.compare_digest(connection.recv(100), word.encode())
    except OSError:
        return False


def main(config):
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # its memory cannot be read by others
    watched, pids = config["watched"], {}
    while len(pids) < len(watched):
        there = command_lines()
        pids = {name: pid for name, words in watched.items() for pid in there if there[pid] == words}
    looks = select.poll()
    names = {}
    for name, pid in pids.items():
        names[os.pidfd_open(int(pid))] = name
    for process in names:
        looks.register(process, select.POLLIN)
    holder = {}
    if "holder" in config:
        file = os.stat(f"/proc/{pids[config['holder']]}/fd/7")
        holder = {"pid": pids[config["holder"]], "file": (file.st_dev, file.st_ino)}
    door = socket.create_server(("127.0.0.1", config["port"]))
    ended = set()
    while True:
        with door.accept()[0] as connection:
            if not asked(connection, config["word"]):
                continue
            while found := looks.poll(SETTLING_MS):  # a process that has ended stays readable, whatever has its number now
                for process, _ in found:
                    ended.add(names[process])
                    looks.unregister(process)
            done = is_done(config, holder, watched, ended)
            try:
                connection.sendall(sealed(config, {"done": done, "ended": sorted(ended)}).encode())
            except OSError:
                continue
