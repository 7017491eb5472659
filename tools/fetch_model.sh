#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (GGUF Q4_1, Apache-2.0) into build/models. A rerun resumes.
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh

model=build/models/SmolLM2-135M-Instruct.Q4_1.gguf
[ -f "$model.ok" ] && [ -f "$model" ] && exit 0
need_space 1
make_venv
build/venv/bin/python tools/fetch_model.py --output "$model" ||
  fail "the model could not be fetched" "Run this again: a partial download is continued."
touch "$model.ok"
