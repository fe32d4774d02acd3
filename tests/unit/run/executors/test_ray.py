"""What follows `--on ray`, and what is said without Ray. The workers themselves: `make test-ray`."""

import sys

import pytest

from drive.command_line import refused
from sandlot.core.errors import ConfigError
from sandlot.run.executors.ray import RayPlace, open_ray, read_ray_place
from worlds.executors import CHORES, plan_of


@pytest.mark.parametrize(
    ("given", "address", "count"),
    [
        ("", None, None),
        ("8", None, 8),
        ("10.0.0.1:6379", "10.0.0.1:6379", None),
        ("[fd00::1]:6379", "[fd00::1]:6379", None),
        ("auto", "auto", None),
        ("4@local", "local", 4),
        ("16@head.cluster-1:6379", "head.cluster-1:6379", 16),
    ],
)
def test_a_place_names_a_cluster_and_a_number_of_workers(given, address, count):
    assert read_ray_place(given) == RayPlace(address, count)


@pytest.mark.parametrize("given", ["head", "http://head:8265", "4@", "4@head", "head:port", "a b:1", "auto;x"])
def test_what_is_no_address_is_refused_with_those_that_are(given):
    with pytest.raises(ConfigError, match="is no address of a Ray cluster; write `ray:HOST:6379`"):
        read_ray_place(given)


@pytest.mark.parametrize("given", ["//head:10001", "//head", "16@ray://head:10001", "ray://head:10001"])
def test_the_client_server_is_refused_with_the_addresses_that_need_none(given):
    with pytest.raises(ConfigError, match=r"client server, which is not used.*`--on ray:(head|HOST):6379`.*`ray job submit"):
        read_ray_place(given)


@pytest.mark.parametrize("given", ["0", "257", "0@auto", "-1@auto", "x@auto"])
def test_a_number_of_workers_that_is_none_is_refused(given):
    with pytest.raises(ConfigError, match="number of workers from 1 to 256"):
        read_ray_place(given)


async def test_without_ray_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    with pytest.raises(ConfigError, match=r"pip install 'sandlot\[ray\]'"):
        async with open_ray("2", plan_of(tmp_path)):
            pass


def test_the_command_refuses_an_address_that_is_none(sandlot, tmp_path):
    said = refused(sandlot("run", CHORES, "--model", "scripted:golden", "--on", "ray:head", cwd=tmp_path))
    assert "`head` is no address of a Ray cluster" in said
