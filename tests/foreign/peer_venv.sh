# Sourced by interop/*.sh: `peer_venv NAME PACKAGES...` makes a virtual environment outside this folder with real packages and this
# checkout, once, and `peer_pytest FILES...` runs tests in it. Their warnings are their own: ours are errors in our own tests.
peer_venv() {
  PEER="${SANDLOT_FOREIGN:-$HOME/.cache/sandlot-foreign}/interop-$1" && shift
  if [ ! -f "$PEER/installed" ]; then
    echo "installing $* into $PEER ..."
    python3 -m venv "$PEER"
    for each in "$@"; do  # one after the other: a local build of torch comes first
      "$PEER/bin/python" -m pip install --quiet --disable-pip-version-check $each  # split: it may begin with an option
    done
    touch "$PEER/installed"
  fi
  "$PEER/bin/python" -m pip install --quiet --disable-pip-version-check -e . pytest pytest-timeout
}

peer_pytest() {
  "$PEER/bin/python" -m pytest -q -p no:cacheprovider --noconftest -o filterwarnings=default -o timeout=600 -o anyio_mode= \
    --disable-warnings "$@"
}
