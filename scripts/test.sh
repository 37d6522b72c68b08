#!/usr/bin/env bash
# Runs the tests of a finished build. Without arguments: all of them; else any of: cpp tsan python lint.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
export PYTHONPATH=$PWD/python
# The compiler of the pip wheel, for tests that compile kernels; no GPU and no toolkit is needed.
nvrtc=$(echo .venv/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13)
[ ! -e "$nvrtc" ] || export STRETTO_NVRTC=${STRETTO_NVRTC:-$PWD/$nvrtc}

run_cpp() { ctest --preset release -j "$jobs" --progress; }

# Only the backends run threads: building anything else for this would cost minutes and find nothing.
run_tsan() {
    cmake --preset tsan >build/configure.log
    cmake --build --preset tsan -j "$jobs" --target test_backends
    # One worker races with nobody, two with fewer than seven do, and values are the release build's business.
    local many='*Cpu*:*cpu*-*_on_cpu_1:*_on_cpu_2:CpuExecutor.GivesTheBitsOfTheReference'
    TSAN_OPTIONS=halt_on_error=1 build/tsan/tests/test_backends --gtest_brief=1 --gtest_filter="$many"
}

run_python() { .venv/bin/python -m pytest tests; }

run_lint() { scripts/lint.sh && echo "lint: clean"; }

if [ $# -eq 1 ]; then
    printf '== %s\n' "$1"
    "run_$1"
    exit
fi
# Every part runs, so that one look shows all failures.
failed=()
[ $# -gt 0 ] || set -- cpp tsan lint python
for part in "$@"; do
    scripts/test.sh "$part" || failed+=("$part")
done
if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failed[*]}" >&2
    exit 1
fi
