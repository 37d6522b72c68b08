#!/usr/bin/env bash
# Makes this computer ready to build Stretto: Debian packages, then a virtual environment in .venv.
# May be run any number of times; once everything is there it only compares a few hashes.
#   PYTHON=python3.12 scripts/setup.sh   picks the interpreter of the virtual environment
set -euo pipefail
cd "$(dirname "$0")/.."
log=build/setup.log
mkdir -p build
source scripts/progress.sh

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

listed() { grep -v '^#' "$1"; }

missing_system_packages() {
    command -v dpkg-query >/dev/null || return 0
    local installed
    installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
    listed requirements-system.txt | grep -vxF "$installed" || true
}

install_system_packages() {
    local missing as_root=()
    missing=$(missing_system_packages)
    [ -n "$missing" ] || return 0
    local wanted
    wanted=$(tr '\n' ' ' <<<"$missing")
    if ! command -v apt-get >/dev/null; then
        fail "these packages are needed and this system has no apt-get: $wanted"
    fi
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null || fail "these packages are needed. Install them, then run this again:
  sudo apt-get install $wanted"
        as_root=(sudo -n)
    fi
    export DEBIAN_FRONTEND=noninteractive
    step "reading package lists" "${as_root[@]}" apt-get update -q
    # shellcheck disable=SC2086
    step "installing system packages" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qy --no-install-recommends $wanted
}

has_torch() {
    "$1" - 2>/dev/null <<'PY'
import sys
from importlib.metadata import version

sys.exit(tuple(int(part) for part in version("torch").split(".")[:2]) < (2, 11))
PY
}

# Prefers an interpreter that has a recent PyTorch already.
choose_python() {
    local candidate found=()
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        found+=("$candidate")
        if has_torch "$candidate"; then
            printf '%s' "$candidate"
            return
        fi
    done
    [ ${#found[@]} -gt 0 ] || fail "Python 3.11 or newer is needed. Set PYTHON to its path."
    printf '%s' "${found[0]}"
}

make_environment() {
    local python pins stamp flags=()
    pins=$(printf '%s' "${PYTHON:-}" | cat - requirements.txt requirements-torch.txt | sha256sum | cut -c1-16)
    stamp=.venv/.ready-$pins
    [ ! -e "$stamp" ] || return 0
    python=$(choose_python)
    if has_torch "$python"; then flags=(--system-site-packages); fi
    step "making .venv" "$python" -m venv --clear "${flags[@]}" .venv
    if ! has_torch .venv/bin/python; then
        command -v nvidia-smi >/dev/null || printf '  %s\n' \
            "no GPU found: to save disk, set PIP_EXTRA_INDEX_URL to PyTorch's CPU index before this step" >&2
        step "installing PyTorch" .venv/bin/python -m pip install -r requirements-torch.txt
    fi
    step "installing Python packages" .venv/bin/python -m pip install -r requirements.txt
    touch "$stamp"
}

install_system_packages
make_environment
