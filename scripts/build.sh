# Shared by ./assay and ./test: from a bare machine to a build. Sourced, not run.
# shellcheck shell=bash disable=SC2154
# Everything said here goes to stderr; stdout belongs to the command that is built.

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
build="$root/build/release"

die() {
  printf '%s: %s\n' "$self" "$*" >&2
  exit 2
}

say() {
  printf '%s: %s\n' "$self" "$*" >&2
}

# nvcc compiles subjects and some tests. Nothing in the build needs it.
find_nvcc() {
  command -v nvcc >/dev/null && return 0
  local toolkit
  for toolkit in "${CUDA_HOME:-}" /usr/local/cuda; do
    if [[ -n $toolkit && -x $toolkit/bin/nvcc ]]; then
      export PATH="$PATH:$toolkit/bin"
      return 0
    fi
  done
  return 1
}

# missing_packages LIST: those of a file under scripts/ that are not installed.
missing_packages() {
  local wanted
  mapfile -t wanted < <(grep -hv '^#' "$root/scripts/$1")
  # dpkg-query fails for a package it never heard of, and lists removed ones too.
  comm -23 <(printf '%s\n' "${wanted[@]}" | sort) \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
      sed -n 's/^installed //p' | sort -u)
}

install_packages() {
  command -v dpkg-query >/dev/null || return 0  # Not a Debian: CMake will name what it lacks.
  local missing
  mapfile -t missing < <(missing_packages packages.txt)
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then
    sudo -n true 2>/dev/null ||
      die "packages are missing and this is not root; run: sudo apt-get update && sudo apt-get install -y ${missing[*]}"
    as_root=(sudo -n)
  fi
  say "installing ${missing[*]}"
  local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq
    --no-install-recommends "${missing[@]}")
  local log
  log=$(mktemp)
  # Without the package lists (a fresh container) the first attempt fails.
  if ! "${install[@]}" >"$log" 2>&1 &&
    ! { "${as_root[@]}" apt-get update -qq && "${install[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get could not install: ${missing[*]}"
  fi
  rm -f "$log"
}

# What only some tests need; they are skipped without it.
install_test_packages() {
  [[ $self == test ]] && command -v dpkg-query >/dev/null || return 0
  local missing
  mapfile -t missing < <(missing_packages packages-test.txt)
  ((${#missing[@]})) || return 0
  local as_root=()
  ((EUID == 0)) || as_root=(sudo -n)
  say "installing ${missing[*]}, for tests"
  local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq
    --no-install-recommends "${missing[@]}")
  "${install[@]}" >/dev/null 2>&1 ||
    { "${as_root[@]}" apt-get update -qq && "${install[@]}"; } >/dev/null 2>&1 ||
    say "could not install ${missing[*]}: the tests that need them are skipped"
}

need_tools() {
  command -v cmake >/dev/null || die "cmake is missing; run: apt-get install -y cmake"
  command -v "${CXX:-c++}" >/dev/null || command -v g++ >/dev/null ||
    die "there is no C++ compiler; run: apt-get install -y g++"
}

# Runs a command with its output in a log. Silent if it is quick; after two seconds it says
# what is going on, and on a terminal how far it is. Shows the log if the command fails.
quietly() {
  local what=$1 log=$2
  shift 2
  "$@" >"$log" 2>&1 &
  local job=$! ticks=0 status=0
  trap 'kill "$job" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$job" 2>/dev/null; do
    sleep 0.05
    ((++ticks == 40)) && say "$what"
    if ((ticks > 40 && ticks % 10 == 0)) && [[ -t 2 ]]; then
      printf '\r\033[K  %.70s' "$(tail -n 1 "$log")" >&2
    fi
  done
  wait "$job" || status=$?
  trap - INT TERM
  ((ticks > 40)) && [[ -t 2 ]] && printf '\r\033[K' >&2
  ((status == 0)) && return 0
  grep -v '^\[[0-9]*/[0-9]*\] [A-Z][a-z]' "$log" | tail -n 100 >&2
  return "$status"
}

# The instruction set that CMake picks for this machine (cmake/options.cmake). A build folder may have moved here
# from another one.
instruction_set() {
  local flags flag
  flags=$(grep -m 1 '^flags' /proc/cpuinfo 2>/dev/null)
  for flag in avx512f avx512bw avx512dq avx512vl; do
    [[ " $flags " == *" $flag "* ]] || { echo avx2; return; }
  done
  echo avx512
}

configure() {
  local fresh=()
  # A checkout that moved must forget where it was.
  if [[ -f $build/CMakeCache.txt ]] &&
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
    fresh=(--fresh)
  fi
  if [[ -f $build/build.ninja && ${#fresh[@]} == 0 && -f $build/instruction_set &&
    $(<"$build/instruction_set") == "$(instruction_set)" ]]; then
    return 0
  fi
  (cd "$root" && quietly "configuring" "$build/configure.log" cmake --preset release "${fresh[@]}") ||
    die "cmake could not configure the build (above; whole log in $build/configure.log)"
  instruction_set >"$build/instruction_set"
}

# up_to_date STAMP: nothing that the build reads is newer than the last good build.
up_to_date() {
  [[ -f $1 && -f $build/instruction_set && $(<"$build/instruction_set") == "$(instruction_set)" ]] || return 1
  local inputs=() input
  for input in src cmake tests scripts CMakeLists.txt CMakePresets.json; do
    [[ -e $root/$input ]] && inputs+=("$root/$input")
  done
  [[ -z $(find "${inputs[@]}" -newer "$1" -print -quit) ]]
}

# make_up_to_date STAMP TARGETS...: packages, configuration, build. One at a time per checkout.
make_up_to_date() {
  local stamp="$build/$1.stamp"
  shift
  up_to_date "$stamp" && return 0
  mkdir -p "$build" || die "cannot write to $build"
  exec 9>"$build/lock" || die "cannot write to $build"
  if ! flock -n 9; then
    say "waiting for another build of this checkout"
    flock 9
    if up_to_date "$stamp"; then
      exec 9>&-
      return 0
    fi
  fi
  need_tools
  install_packages
  install_test_packages
  local began="$stamp.began"
  touch "$began"
  configure
  quietly "building (the first time takes a few minutes)" "$build/build.log" \
    ninja -C "$build" "$@" 9>&- || die "the build failed (above; whole log in $build/build.log)"
  mv "$began" "$stamp"
  exec 9>&-
}
