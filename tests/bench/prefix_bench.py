"""What finding a common system prompt saves: the same requests with the prefix cache on and off.

All requests arrive at once, on empty caches. Interleaves on and off for each repeat and prints
min / median / max of the wall times and of their ratio, which docs/benchmarks states:

    build/venv/bin/python tests/bench/prefix_bench.py --repeats 3
"""
import argparse
import concurrent.futures
import random
import time

from measure import spread
from service import Service, admin, collect, greedy_request


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--system-tokens", type=int, default=512)
    parser.add_argument("--own-tokens", type=int, default=6)
    parser.add_argument("--output-tokens", type=int, default=8)
    parser.add_argument("--worker", action="append", default=[], help="a worker flag; may be repeated")
    options = parser.parse_args()
    draw = random.Random(1)

    def tokens(count):
        return [draw.randrange(100, 49000) for _ in range(count)]

    def run(service):
        """Wall seconds, and prompt tokens computed."""
        system = tokens(options.system_tokens)
        prompts = [system + tokens(options.own_tokens) for _ in range(options.requests)]
        service.admin.FlushPrefixCache(admin.FlushPrefixCacheRequest(), timeout=10)
        before = service.state().prompt_tokens
        with concurrent.futures.ThreadPoolExecutor(options.requests) as pool:
            start = time.monotonic()
            list(pool.map(lambda ids: collect(service.generation.Generate(
                greedy_request(ids, options.output_tokens), timeout=600)), prompts))
            seconds = time.monotonic() - start
        return seconds, service.wait_idle().prompt_tokens - before

    flags = ["--max-model-len", "2048"]
    with Service(flags, options.worker) as on, \
            Service([*flags, "--no-enable-prefix-caching"], options.worker) as off:
        for service in (on, off):  # touches every page of the weights once
            collect(service.generation.Generate(greedy_request(tokens(64), 8), timeout=60))
        pairs = [(run(on), run(off)) for _ in range(options.repeats)]
    print(f"{options.requests} requests, {options.system_tokens} common + {options.own_tokens} own prompt tokens, "
          f"{options.output_tokens} output tokens; {options.repeats} repeats, min / median / max")
    print(f"prompt tokens computed, on / off   {pairs[0][0][1]} / {pairs[0][1][1]}")
    print(f"wall seconds, on                   {spread([on[0] for on, _ in pairs], 2)}")
    print(f"wall seconds, off                  {spread([off[0] for _, off in pairs], 2)}")
    print(f"off / on                           {spread([off[0] / on[0] for on, off in pairs], 1)} x")


if __name__ == "__main__":
    main()
