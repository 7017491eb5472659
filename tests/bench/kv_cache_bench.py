"""Decoding with every KV cache type at a large batch and a long context, where attention reads more than the weights.

Servers of all types hold the same prompts in their prefix caches, so that a run is decoding from its start; each
repeat runs all types in turns. Prints min / median / max of decoded tokens per second (streams over the median time
between two tokens), and of the ratio to bf16 within a repeat, which docs/benchmarks states:

    build/venv/bin/python tests/bench/kv_cache_bench.py --repeats 5
"""
import argparse
import contextlib

from measure import run, spread
from service import BIN, Service

DTYPES = ("bf16", "int8", "fp8_e4m3", "fp8_e5m2")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--prompt-tokens", type=int, default=1450)
    parser.add_argument("--output-tokens", type=int, default=100)
    parser.add_argument("--worker", action="append", default=[], help="a worker flag; may be repeated")
    options = parser.parse_args()
    tokens = options.streams * (options.prompt_tokens + options.output_tokens + 64)
    load = ["--streams", options.streams, "--prompt-tokens", options.prompt_tokens, "--output-tokens",
            options.output_tokens, "--json"]
    rates = {dtype: [] for dtype in DTYPES}
    pool = {}
    with contextlib.ExitStack() as stack:
        commands = {}
        for dtype in DTYPES:
            flags = ["--max-model-len", "2048", "--kv-cache-dtype", dtype, "--num-gpu-blocks-override", str(tokens // 16)]
            service = stack.enter_context(Service(flags, options.worker))
            commands[dtype] = [BIN / "octavo", "bench", "--target", service.target, *load]
            run(*commands[dtype])  # fills the cache
            pool[dtype] = service.state().capacity.bytes_per_token
        for _ in range(options.repeats):
            for dtype in DTYPES:
                result = run(*commands[dtype])
                assert result["preemptions"] == 0, result
                rates[dtype].append(options.streams / result["inter_token_ms"]["median"] * 1e3)
    print(f"{options.streams} streams, {options.prompt_tokens} prompt tokens, {options.output_tokens} output tokens; "
          f"{options.repeats} repeats, min / median / max")
    for dtype in DTYPES:
        ratio = [a / b for a, b in zip(rates[dtype], rates["bf16"])]
        print(f"{dtype:9} {pool[dtype]:6} bytes/token, {pool['bf16'] / pool[dtype]:.2f} x the blocks   "
              f"tokens/s {spread(rates[dtype])}   x bf16 {spread(ratio, 2)}")


if __name__ == "__main__":
    main()
