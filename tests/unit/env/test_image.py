"""The image of an environment must not show the environment itself to the agent."""

import pytest

from sandlot import Environment
from sandlot.core.errors import ConfigError
from sandlot.env.image import image_of
from sandlot.env.load import load

FILE = """
from sandlot import Environment, Task

env = Environment("seen", image="{image}")

@env.tasks
def tasks(rng):
    yield Task("one", prompt="Guess.", key={{"word": "hunter2"}})

@env.check(points=1)
def is_right(evidence, task):
    return evidence.answer == task.key["word"]
"""


def written(folder, image) -> Environment:
    folder.mkdir(parents=True)
    (folder / "seen.py").write_text(FILE.format(image=image))
    return load(str(folder / "seen.py"))


@pytest.mark.parametrize("kind", ["host:", "folder:"])
def test_an_image_that_shows_the_environment_is_refused(tmp_path, kind):
    env = written(tmp_path / "code/envs", f"{kind}{tmp_path / 'code'}")
    with pytest.raises(ConfigError, match=r"an agent could read the keys and checks\. Move it out of that folder"):
        image_of(env)


def test_a_link_does_not_hide_it(tmp_path):
    env = written(tmp_path / "code/envs", f"host:{tmp_path / 'link'}")
    (tmp_path / "link").symlink_to(tmp_path / "code")
    with pytest.raises(ConfigError, match="could read the keys"):
        image_of(env)


@pytest.mark.parametrize("image", ["host", "host:{}/other", "folder:envs/root", "debian:bookworm", "an-engines-image"])
def test_an_image_beside_or_inside_the_environment_is_used(tmp_path, image):
    (tmp_path / "other").mkdir()
    assert image_of(written(tmp_path / "envs", image.format(tmp_path)))


def test_an_environment_in_usr_is_warned_about(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("sandlot.sandbox.images.spec.USR", tmp_path / "usr")
    assert image_of(written(tmp_path / "usr/local/lib/envs", "host")) == "host"
    assert "could read the keys" in caplog.text
