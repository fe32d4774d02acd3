#!/bin/sh
# Jobs that Harbor ran and wrote are read as runs. Then Harbor's own command runs an environment that we exported, in a Docker engine
# that the test starts: its oracle gets full marks and its nop agent none. Needs root (../../install/docker.sh installs the engine)
# and Python 3.12 or newer.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
here="$(cd "$(dirname "$0")" && pwd)"
folder="$SANDLOT_FOREIGN/harbor"
python="$(python_312)"
if [ ! -x "$folder/bin/harbor" ]; then
  "$python" -m venv "$folder"
  # Without its lower bound on certifi, which can be a day ahead of a mirror.
  "$folder/bin/pip" download --quiet --no-deps --dest "$folder/wheel" harbor==0.25.0
  "$folder/bin/python" - "$folder/wheel" > "$folder/needs.txt" <<'END'
import pathlib, sys, zipfile
wheel = zipfile.ZipFile(next(pathlib.Path(sys.argv[1]).glob("*.whl")))
metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()
needs = [line.removeprefix("Requires-Dist: ") for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
print("\n".join("certifi" if need.startswith("certifi") else need for need in needs if "extra" not in need))
END
  install_into "$folder" -r "$folder/needs.txt"
  install_into "$folder" --no-deps harbor==0.25.0
fi
HARBOR_PYTHON="$folder/bin/python" "$bin/python" -m pytest -q -p no:cacheprovider -o timeout=600 "$here/harbor_logs_conformance.py"
[ "$(id -u)" = 0 ] || not_run "Harbor's jobs were read; for its own command, the test starts a Docker engine, which needs root"
sh "$here/../../install/debootstrap.sh"
sh "$here/../../install/docker.sh"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$bin/sandlot" export harbor "$here/sums" --out "$work/tasks"
"$bin/python" "$here/harbor_docker.py" "$folder/bin/harbor" "$work/tasks" "$work/jobs"
