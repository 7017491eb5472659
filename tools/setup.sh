# Steps that quickstart.sh and test.sh share. Sourced, not run: it expects `set -eu` and the
# repository's root as the working directory.

mkdir -p build

say() { printf '%s\n' "$*" >&2; }

fail() {
  printf 'error: %s\n' "$1" >&2
  shift
  for hint in "$@"; do printf '       %s\n' "$hint" >&2; done
  exit 1
}

# need_space GIB: fails early and plainly instead of deep inside a compiler.
need_space() {
  local free_kib
  free_kib=$(df -Pk . | awk 'NR == 2 {print $4}')
  if [ "$free_kib" -lt $(($1 * 1024 * 1024)) ]; then
    fail "$(pwd) has $((free_kib / 1024)) MiB of disk free; $(($1 * 1024)) MiB are needed" \
      "Free some space and run this again: finished steps are kept."
  fi
}

# missing_packages FILE...: names of packages, one a line, that the machine lacks.
missing_packages() {
  local package
  grep -hv '^#' "$@" | while read -r package; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed' ||
      printf '%s\n' "$package"
  done
}

# install_packages FILE...: what these lists name and the machine lacks.
install_packages() {
  command -v dpkg-query >/dev/null ||
    fail "this is not Debian: dpkg-query is missing" "Octavo is built and tested on Debian 12."
  local missing
  missing=$(missing_packages "$@" | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    fail "these packages are missing and only root may install them: $missing" \
      "Run: sudo apt-get update && sudo apt-get install --no-install-recommends $missing" \
      "and then this script again."
  fi
  say "installing packages: $missing"
  export DEBIAN_FRONTEND=noninteractive
  if ! apt-get update >build/apt.log 2>&1; then
    fail "apt-get update failed; is the network there?" "$(tail -n 3 build/apt.log)" "Log: build/apt.log"
  fi
  # shellcheck disable=SC2086
  if ! apt-get install -y --no-install-recommends $missing >>build/apt.log 2>&1; then
    fail "apt-get install failed" "$(tail -n 3 build/apt.log)" "Log: build/apt.log"
  fi
}

# build_release TARGET...: configures once, then builds what changed.
build_release() {
  # Ninja configures again by itself when a CMake file changed.
  if [ ! -f build/release/build.ninja ]; then
    cmake --preset release >build/configure.log 2>&1 ||
      fail "CMake could not configure the build" "$(tail -n 5 build/configure.log)" "Log: build/configure.log"
  fi
  if ninja -C build/release -n "$@" 2>/dev/null | grep -q 'no work to do'; then return 0; fi
  say "building $* (the first time takes some minutes)"
  if [ -t 2 ]; then
    ninja -C build/release "$@" >&2 || fail "the build failed; see above"
  else
    ninja -C build/release "$@" >build/build.log 2>&1 ||
      { tail -n 40 build/build.log >&2; fail "the build failed" "Log: build/build.log"; }
  fi
}

# Python packages for tests and the model download live in build/venv, never in the system.
make_venv() {
  if ! build/venv/bin/python -m pip --version >/dev/null 2>&1; then
    rm -rf build/venv
    python3 -m venv build/venv >build/venv.log 2>&1 ||
      fail "python3 -m venv failed" "$(tail -n 3 build/venv.log)"
  fi
}
