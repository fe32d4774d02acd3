"""What the tests install is put into the image, as the tests would install it."""

import re

from sandlot.interop.harbor import importer

FROM = "FROM debian:trixie\nRUN true\n"


def steps(script):
    return re.findall(r"apt-get install ([^&)]*)", importer._with_test_packages(FROM, script))


def test_debian_packages_come_with_what_they_recommend_as_in_the_test_script():
    """`gcc` compiles nothing without `libc6-dev`, which it recommends."""
    ours, theirs = steps("apt-get install -y gcc=13.2-1\nuv pip install pytest")
    assert ours.split() == ["-y", "--no-install-recommends", "python3", "python3-venv", "python3-pip"]
    assert theirs.split() == ["-y", "gcc", "python3-dev"]
    assert steps("apt-get install -y --no-install-recommends jq\nuv pip install pytest")[1].split() == [
        "-y",
        "--no-install-recommends",
        "jq",
    ]


def test_without_debian_packages_only_python_is_looked_for():
    assert len(steps("uv pip install pytest")) == 1
    assert importer._with_test_packages(FROM, "bash check.sh") == FROM
