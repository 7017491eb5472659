"""Speed of the served system beside the machine's own bound, measured in one run.

Interleaves, for each repeat: the machine's read bandwidth, one stream, 32 streams. Prints min / median / max
and the ratios that docs/benchmarks states. Run it with build/venv/bin/python on a quiet machine:

    build/venv/bin/python tests/bench/served_bench.py --repeats 5
"""
import argparse

from measure import run, spread
from service import BIN, Service

BENCH = BIN / "octavo_read_bandwidth_bench"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--output-tokens", type=int, default=128)
    parser.add_argument("--worker", action="append", default=[], help="a worker flag; may be repeated")
    options = parser.parse_args()
    lengths = ["--prompt-tokens", options.prompt_tokens, "--output-tokens", options.output_tokens, "--json"]
    bandwidth, single, first, batch, batch_decode = [], [], [], [], []
    with Service(["--max-model-len", "2048"], options.worker) as service:
        # Bytes of all tensors: a token reads each once (the tied embedding as the output layer).
        weight_bytes = service.state().workers[0].load_total_bytes
        path = service.state().workers[0].numeric_path
        target = [BIN / "octavo", "bench", "--target", service.target, *lengths]
        run(*target, "--streams", 1)  # touches every page once
        for _ in range(options.repeats):
            bandwidth.append(run(BENCH, weight_bytes)["gb_per_s"]["median"])
            one = run(*target, "--streams", 1)
            single.append(one["stream_tokens_per_second"]["median"])
            first.append(one["first_token_ms"]["median"])
            many = run(*target, "--streams", 32)
            batch.append(many["output_tokens_per_second"])
            batch_decode.append(32 * many["stream_tokens_per_second"]["median"])
        state = service.state()
    bound = [rate * 1e9 / weight_bytes for rate in bandwidth]
    print(f"numeric path {path}; {weight_bytes / 1e6:.1f} MB of weights a token; {options.repeats} repeats")
    print("min / median / max")
    print(f"read bandwidth, GB/s                 {spread(bandwidth)}")
    print(f"bound of one stream, tokens/s        {spread(bound)}")
    print(f"one stream, decode tokens/s          {spread(single)}")
    print(f"one stream, first token ms           {spread(first)}")
    print(f"32 streams, decode phase tokens/s    {spread(batch_decode)}")
    print(f"32 streams, whole run tokens/s       {spread(batch)}")
    print(f"one stream / bound                   {spread([100 * a / b for a, b in zip(single, bound)])} %")
    print(f"32 streams decode / one stream       {spread([a / b for a, b in zip(batch_decode, single)])} x")
    print(f"32 streams whole run / one stream    {spread([a / b for a, b in zip(batch, single)])} x")
    print(f"Schedule + Commit, median us         {state.schedule_seconds_p50 * 1e6:.1f}")


if __name__ == "__main__":
    main()
