#!/usr/bin/env bash
# Checks style without changing anything.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/ruff check -q .
.venv/bin/ruff format --check -q .
git ls-files '*.cpp' '*.h' '*.cuh' | xargs -r .venv/bin/clang-format --dry-run -Werror
