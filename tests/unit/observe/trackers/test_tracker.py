import pytest

from sandlot.core.errors import ConfigError
from sandlot.observe.trackers.tracker import import_package


def test_a_tracker_whose_package_is_missing_is_told_how_to_install_it():
    with pytest.raises(ConfigError, match=r"tracker `mlflow` needs .*no_such_module.*pip install 'sandlot\[mlflow\]'"):
        import_package("no_such_module", "mlflow")
    assert import_package("json", "mlflow").__name__ == "json"
