"""`sandlot images` as a person uses it, in processes of its own, and runs of environments that carry their image."""

import pytest

from builders.images import docker_archive, file, tar_of
from drive.command_line import refused

pytestmark = pytest.mark.timeout(300)  # whole commands, several a test

SHOP = """
from sandlot import Environment, Task

env = Environment("shop", image="archive:box.tar")

@env.tasks
def tasks(rng):
    yield Task("tea", prompt="What does tea cost?", key={"price": "3"})

@env.tool
async def prices(world) -> str:
    return (await world.read("/data/prices.csv")).decode()

@env.check(points=1)
def right_price(evidence, task):
    return task.key["price"] in evidence.answer

@env.solution
async def solve(agent, task):
    await agent.say((await agent.call("prices")).split(",")[1])
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "box.tar").write_bytes(docker_archive(tar_of(file("data/prices.csv", b"tea,3"))))
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def test_images_are_made_listed_and_removed(sandlot, place):
    cache = {"XDG_CACHE_HOME": str(place / "cache")}
    assert sandlot("images", "--json", cwd=place, **cache).json == {"images": [], "removed": False, "size_bytes": 0}
    made = sandlot("images", "--make", "archive:box.tar", "--json", cwd=place, **cache)
    assert made.code == 0, made
    (image,) = made.json["images"]
    assert (image["kind"], image["name"], image["num_files"]) == ("archive", "archive:box.tar", 2)
    assert image["digest"].startswith("sha256:")
    listed = sandlot("images", cwd=place, **cache)
    assert "archive:box.tar" in listed.out
    assert sandlot("images", "--gc", "--json", cwd=place, **cache).json["images"] == []
    gone = sandlot("images", "--gc", "--older-than", "0", "--json", cwd=place, **cache).json
    assert image["digest"] in {item["digest"] for item in gone["images"]}
    assert sandlot("images", "--json", cwd=place, **cache).json["images"] == []


def test_a_wrong_image_is_one_sentence(sandlot, place):
    assert "image specs are: `host`" in refused(sandlot("images", "--make", "hots", cwd=place))
    assert "no file at" in refused(sandlot("images", "--make", "archive:nothing.tar", cwd=place))
    (place / "box.tar").write_bytes(docker_archive(tar_of(file("../../x", b"x"))))
    assert "leads out of the image" in refused(sandlot("images", "--make", "archive:box.tar", cwd=place))
    assert sandlot("images", "--make", "host", "--gc", cwd=place).code == 2


def test_an_environment_carries_its_image_and_another_image_is_another_environment(sandlot, place):
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    ran = sandlot("run", place / "shop.py", "--model", "scripted:golden", "--run", "here", "--json", cwd=elsewhere)
    assert ran.code == 0, ran
    assert ran.json["score"]["mean"] == 1.0
    before = sandlot("show", place / "shop.py", "--json", cwd=elsewhere).json["fingerprint"]
    (place / "box.tar").write_bytes(docker_archive(tar_of(file("data/prices.csv", b"tea,4"))))
    assert sandlot("show", place / "shop.py", "--json", cwd=elsewhere).json["fingerprint"] != before
