# Sourced by interop/*.sh, whose $1 is the folder of our python. Their warnings are their own: ours are errors in our own tests.
bin="$1"

# `not_run REASON`: this kind cannot run on this machine. ../interop.sh names it with the reason at its end.
not_run() {
  echo "$1" >"$SANDLOT_NOT_RUN"
  exit 1
}

# `python_312`: prints a Python of 3.12 or newer, for packages that ask for one.
python_312() {
  for python in "${PYTHON312:-}" "$bin/python" python3.12 python3.13 "$HOME"/.pyenv/versions/3.1[23]*/bin/python3; do
    # A shim of pyenv may be there and not start.
    if "$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  not_run "it needs Python 3.12 or newer; name one: PYTHON312=..."
}

# `install_into VENV PACKAGES...`: by uv if our own environment has it, else by pip, which takes longer.
install_into() {
  venv="$1"
  shift
  [ -z "${PIP_FIND_LINKS:-}" ] || export UV_FIND_LINKS="$PIP_FIND_LINKS"  # uv does not read pip's settings
  [ -x "$bin/uv" ] && "$bin/uv" pip install --quiet --python "$venv/bin/python" "$@" ||
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

# `separate_venv NAME PYTHON PACKAGES...`: a virtual environment outside this folder with these packages. PEER is its folder. The
# packages are installed once, and again if the list has changed since.
separate_venv() {
  PEER="$SANDLOT_FOREIGN/interop-$1"
  python="$2"
  shift 2
  if [ "$(cat "$PEER/installed" 2>/dev/null)" != "$*" ]; then
    echo "installing $* into $PEER ..."
    "$python" -m venv "$PEER"
    for each in "$@"; do  # one after the other: a local build of torch comes first
      install_into "$PEER" $each  # split: it may begin with an option
    done
    echo "$*" >"$PEER/installed"
  fi
}

# `peer_venv NAME PACKAGES...`: the same with this checkout in it. `peer_pytest FILES...` runs tests there.
peer_venv() {
  name="$1"
  shift
  separate_venv "$name" "$bin/python" "$@"
  install_into "$PEER" -e . pytest pytest-timeout
}

peer_pytest() {
  "$PEER/bin/python" -m pytest -q -p no:cacheprovider --noconftest -o filterwarnings=default -o timeout=600 -o anyio_mode= \
    --disable-warnings "$@"
}
