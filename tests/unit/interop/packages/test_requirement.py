from importlib.metadata import version

import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.packages.requirement import package_licence, package_version, require_package


def test_the_version_of_the_import_is_imported():
    import msgspec

    assert require_package(f"msgspec=={version('msgspec')}", "msgspec") is msgspec


@pytest.mark.parametrize(
    ("requirement", "module", "said"),
    [
        ("no-such-package==1.0", "no_such", "pip install 'no-such-package==1.0'"),
        ("msgspec==0.0.1", "msgspec", "was imported with msgspec==0.0.1"),
        ("msgspec", "msgspec.no_such", "install what it needs"),
    ],
)
def test_what_is_missing_is_said_with_the_command(requirement, module, said):
    with pytest.raises(ConfigError) as raised:
        require_package(requirement, module)
    assert said in str(raised.value)


def test_a_package_that_is_not_installed_has_no_version():
    with pytest.raises(ConfigError, match="pip install no-such-package"):
        package_version("no-such-package")


def test_the_licence_is_a_few_words():
    assert package_licence("numpy") != "unknown"
    assert "\n" not in package_licence("numpy")
