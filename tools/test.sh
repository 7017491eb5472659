#!/usr/bin/env bash
# Installs what is needed, builds everything and runs all tests. Arguments go to ctest: -R, -L, ...
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh

[ -d build/release ] || need_space 6
install_packages tools/packages.txt
make_venv
if ! build/venv/bin/python -m pip install --quiet --disable-pip-version-check \
  -r tests/requirements.txt >build/pip.log 2>&1; then
  fail "the tests' Python packages could not be installed" "$(tail -n 3 build/pip.log)" "Log: build/pip.log"
fi
tools/fetch_model.sh
build_release all
ctest --preset release -j 2 "$@"
