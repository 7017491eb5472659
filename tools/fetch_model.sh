#!/usr/bin/env bash
# Fetches a model into build/models. A rerun resumes.
#
#     tools/fetch_model.sh                       SmolLM2-135M-Instruct (GGUF Q4_1, Apache-2.0)
#     tools/fetch_model.sh --model gemma3-270m   Gemma 3 270M (GGUF Q4_K_M, 253 MB, Gemma Terms of Use):
#                                                for tests of models with sliding windows
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh

name=smollm2-135m
case ${1-} in
  "") ;;
  --model) name=${2:?"--model needs a name: smollm2-135m or gemma3-270m"} ;;
  *) fail "unknown argument: $1" "Only --model NAME is known, NAME being smollm2-135m or gemma3-270m." ;;
esac
case $name in
  smollm2-135m) model=build/models/SmolLM2-135M-Instruct.Q4_1.gguf ;;
  gemma3-270m) model=build/models/gemma-3-270m-q4_k_m.gguf ;;
  *) fail "unknown model: $name" "smollm2-135m and gemma3-270m are known." ;;
esac
[ -f "$model.ok" ] && [ -f "$model" ] && exit 0
need_space 1
make_venv
build/venv/bin/python tools/fetch_model.py --model "$name" --output "$model" ||
  fail "the model could not be fetched" "Run this again: a partial download is continued."
touch "$model.ok"
