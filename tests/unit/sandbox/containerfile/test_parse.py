import pytest

from sandlot.core.errors import ConfigError
from sandlot.sandbox.containerfile.bases import find_base
from sandlot.sandbox.containerfile.parse import expand, parse_containerfile, parse_pairs

WHOLE = """# syntax=docker/dockerfile:1
ARG VERSION=3.13
FROM --platform=linux/amd64 python:${VERSION}-slim AS main
ENV A=1 B="two words" C=$A D='$A'
RUN apt-get update && \\
    # a comment in between

    apt-get install -y git
COPY --chown=me:me --chmod=755 a.txt "b c" ./
RUN ["python3", "-c", "print(1)"]
RUN <<EOF
echo one
echo two
EOF
cmd ["sleep", "infinity"]
"""


def test_instructions_have_flags_continued_lines_and_documents():
    found = parse_containerfile(WHOLE)
    assert [each.name for each in found] == ["ARG", "FROM", "ENV", "RUN", "COPY", "RUN", "RUN", "CMD"]
    assert found[1].flags == {"platform": "linux/amd64"}
    assert found[3].rest.split() == ["apt-get", "update", "&&", "apt-get", "install", "-y", "git"]
    assert found[4].flags == {"chown": "me:me", "chmod": "755"}
    assert found[5].words() == ["python3", "-c", "print(1)"]
    assert found[6].documents == (("EOF", "echo one\necho two\n"),)
    assert found[6].line == 11


def test_variables_are_replaced_as_docker_does():
    env = parse_pairs(parse_containerfile(WHOLE)[2], {"A": "0"})
    assert env == {"A": "1", "B": "two words", "C": "0", "D": "$A"}
    assert expand("${X:-other} ${A:+set} $A \\$A ${none}", {"A": "1"}) == "other set 1 $A "
    (old,) = (each for each in parse_containerfile("FROM debian\nENV NAME a value\n") if each.name == "ENV")
    assert parse_pairs(old, {}) == {"NAME": "a value"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RUN true\n", "without `FROM`"),
        ("FROM debian\nFETCH x\n", "line 2: `FETCH` is no instruction"),
        ("FROM debian\nRUN <<EOF\necho\n", "line 2: the here-document `EOF` has no end"),
        ("FROM debian\n" + "x" * 2_000_000, "at most"),
        ("FROM debian\0\n", "NUL"),
    ],
)
def test_what_is_no_containerfile_is_an_error_that_names_the_line(text, why):
    with pytest.raises(ConfigError, match=why):
        parse_containerfile(text)


def test_a_broken_pair_is_an_error():
    with pytest.raises(ConfigError, match="write `NAME=value`"):
        parse_pairs(parse_containerfile("FROM debian\nENV A=1 B='\n")[1], {})


@pytest.mark.parametrize(
    ("image", "suite", "python"),
    [
        ("debian:bookworm-slim", "bookworm", False),
        ("debian:13.0-slim", "trixie", False),
        ("ubuntu:24.04", "trixie", False),
        ("ubuntu:22.04", "bookworm", False),
        ("python:3.13-slim-bookworm", "trixie", True),
        ("python:3.11@sha256:8fb099199b9f2d70342674bd9dbccd3ed03a258f26bbd1d556822c6dfc60c317", "bookworm", True),
        ("example.org/group/python-3-13:20250620", "trixie", True),
        ("example.org/group/ubuntu-24-04:latest", "trixie", False),
        ("buildpack-deps:jammy", "bookworm", False),
        ("buildpack-deps:trixie-scm", "trixie", False),
        ("buildpack-deps", "trixie", False),
    ],
)
def test_known_bases_are_debian_packages(image, suite, python):
    base = find_base(image)
    assert (base.suite, base.python) == (suite, python)
    assert base.spec.startswith(f"debian:{suite}?")


def test_a_base_that_stands_for_another_says_so():
    assert "stands for Ubuntu 24.04" in find_base("ubuntu:24.04").notes[0]
    assert "stands for 3.11.10" in find_base("python:3.11.10-slim").notes[0]
    assert find_base("debian:trixie").notes == ()
    assert len(find_base("buildpack-deps:jammy").notes) == 2


def test_a_size_of_buildpack_deps_decides_what_is_in_it():
    whole, scm, curl = (set(find_base(f"buildpack-deps:bookworm{size}").packages) for size in ("", "-scm", "-curl"))
    assert curl < scm < whole
    assert ("git" in scm, "git" in curl, "gcc" in whole, "gcc" in scm) == (True, False, True, False)


def test_pip_needs_no_flag_where_it_needs_none_in_what_a_base_stands_for():
    """Ubuntu 22.04 has a Python that `pip install` may change; Debian 12, which stands for it, refuses that without a flag."""
    assert find_base("ubuntu:22.04").env == find_base("buildpack-deps:jammy").env == {"PIP_BREAK_SYSTEM_PACKAGES": "1"}
    assert find_base("ubuntu:24.04").env == find_base("debian:bookworm").env == {}


@pytest.mark.parametrize(
    "image",
    ["alpine:3.20", "node:22", "python:3.10-slim", "debian:buster", "ubuntu:18.04", "scratch", "pb-1", "buildpack-deps:xenial"],
)
def test_any_other_base_is_refused_by_name(image):
    with pytest.raises(ConfigError, match=f"`{image}` cannot be had"):
        find_base(image)
