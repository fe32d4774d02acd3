"""Finds the Docker image of a sandbox, and checks that sandboxes can use it."""

from sandlot.core.errors import ConfigError
from sandlot.sandbox.defaults import command_defaults
from sandlot.sandbox.docker.api import DockerApi, DockerImage, ImageConfig
from sandlot.sandbox.docker.machine import MOUNTED, DockerBase
from sandlot.sandbox.images.image import image_architecture


async def find_docker_image(docker: DockerApi, name: str) -> DockerBase:
    """The image of this name as a base for machines; `ConfigError` with the fix if it cannot be used."""
    if name == "host" or name.startswith(("/", ".")):
        raise ConfigError(
            f"image {name!r} is a folder or archive on this machine; only `--sandbox native` can use it. Import it into Docker"
            " (`tar -C FOLDER -c . | docker import - NAME`, or `docker load -i ARCHIVE`) and name it in the environment"
        )
    image = await docker.image(name)
    if image is None:
        known = sorted({tag for each in await docker.images() for tag in each.repo_tags or () if tag != "<none>:<none>"})
        there = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        raise ConfigError(
            f"no image named {name!r} in the Docker engine at {docker.path}; it has: {there or 'none'}."
            f" Fetch it first: `docker pull {name}`. Sandboxes never pull images"
        )
    _check_image(name, image)
    config = image.config or ImageConfig()
    defaults = command_defaults(config.env, config.user, config.working_dir)
    return DockerBase(image=image.id, pristine=image.id, defaults=defaults, mounted=MOUNTED)


def _check_image(name: str, image: DockerImage) -> None:
    ours = image_architecture()
    if image.os != "linux" or image.architecture not in {"", ours}:
        raise ConfigError(f"image {name!r} is for {image.os}/{image.architecture}; this machine runs linux/{ours}")
    volumes = sorted((image.config and image.config.volumes) or ())
    if volumes:
        raise ConfigError(
            f"image {name!r} declares volumes ({', '.join(volumes)}): files written there could not be frozen or forked."
            " Make a copy without volumes: `docker export $(docker create NAME) | docker import - NEW`"
        )
