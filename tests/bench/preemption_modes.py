"""Simulated completion time under each preemption mode, as a Markdown table (docs/benchmarks/simulated.md)."""
import argparse
import json
import pathlib
import subprocess

MODES = ("recompute", "swap", "auto")
# Blocks of 16 tokens: for OPT-13B half, three quarters and all of what the card holds; for Llama-3-8B, whose card
# holds 56,499 and then preempts nobody, as few as make requests compete for blocks.
POOLS = {
    ("opt-13b", "a100-40"): {
        "azure_llm_2023_conv.csv": (438, 657, 876),
        "azure_llm_2023_code.csv": (438, 657, 876),
        "mooncake_conversation.jsonl": (438, 657, 876),
    },
    ("llama-3-8b", "h200"): {
        "azure_llm_2023_conv.csv": (900, 1765, 3531),
        "azure_llm_2023_code.csv": (500, 900, 1765),
        "mooncake_conversation.jsonl": (2000, 4000, 8000),
    },
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--octavo", default="build/release/bin/octavo")
    parser.add_argument("--traces", required=True, help="folder with the traces of Azure and Mooncake")
    parser.add_argument("flags", nargs="*", help="further flags of octavo simulate, after --")
    arguments = parser.parse_args()
    print("| model, device | trace | blocks | finished | recompute s | swap s | auto s | auto / better | "
          "auto's victims: recomputed, swapped |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    worst, below = 0, 0
    for (model, device), traces in POOLS.items():
        for trace, pools in traces.items():
            for blocks in pools:
                out = subprocess.run(
                    [arguments.octavo, "simulate", "--json", "--preset-model", model, "--preset-device", device,
                     "--trace", str(pathlib.Path(arguments.traces) / trace), "--requests", "2000",
                     "--request-rate", "inf", "--num-blocks", str(blocks), "--swap-space", "64GiB",
                     "--sweep", "preemption-mode=" + ",".join(MODES), *arguments.flags],
                    check=True, capture_output=True, text=True).stdout
                runs = json.loads(out)
                seconds = [run["seconds"] for run in runs]
                ratio = seconds[2] / min(seconds[:2])
                worst, below = max(worst, ratio), below + (ratio < 1)
                victims = runs[2]["preemptions_by_mode"]
                print("| %s, %s | %s | %d | %d | %.2f | %.2f | %.2f | %.4f | %d, %d |" % (
                    model, device, trace.split(".")[0], blocks, runs[2]["requests_finished"], *seconds, ratio,
                    victims["recompute"], victims["swap"]))
    print("\nAuto is at most %.2f %% above the better fixed mode, and below both in %d of the rows." % (
        100 * (worst - 1), below))


if __name__ == "__main__":
    main()
