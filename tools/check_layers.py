"""Checks that every #include follows the arrows of docs/architecture.md.

A folder may include its own files, the folders listed for it, and the foreign libraries listed for
it. Prints each violation and exits 1 when there is one.
"""
import pathlib
import re
import sys

ABSL, JSON, GRPC, CLI = "absl/", "nlohmann/", ("grpcpp/", "grpc/", "google/protobuf/"), "CLI/"
PROTO = ("octavo/v1/", "octavo/worker/v1/", "google/rpc/", "grpc/health/v1/", "vllm/grpc/engine/")

# folder: (folders of ours, foreign prefixes)
ARROWS = {
    "common": ([], [ABSL]),
    "common/program": (["common"], [ABSL, CLI, "spdlog/"]),
    "common/checkpoint": (["common"], [ABSL, JSON, "openssl/"]),
    "common/rpc": (["common"], [ABSL, *GRPC, *PROTO]),
    "scheduler/kv": (["common"], [ABSL, "openssl/", "xxhash"]),
    "scheduler/core": (["common", "scheduler/kv"], [ABSL]),
    "scheduler/text": (["common", "common/checkpoint"], [ABSL, JSON, "pcre2", "utf8proc"]),
    "scheduler/engine": (["common", "scheduler/core", "scheduler/text"], [ABSL]),
    "scheduler/transport": (
        ["common", "common/rpc", "common/checkpoint", "common/program", "scheduler/core", "scheduler/text",
         "scheduler/engine"],
        [ABSL, JSON, CLI, *GRPC, *PROTO, "prometheus/"]),
    "scheduler": (["common", "common/program", "common/rpc", "common/checkpoint", "scheduler/engine",
                   "scheduler/transport"], [ABSL, CLI]),
    "worker/backend": (["common"], [ABSL]),
    "worker/cpu": (["common", "common/checkpoint", "worker/backend"], [ABSL]),
    "worker/cuda/kernels": (["common", "worker/backend"], [ABSL]),
    "worker/cuda": (["common", "common/checkpoint", "worker/backend", "worker/cuda/kernels"], [ABSL]),
    "worker/kv": (["common", "worker/backend"], [ABSL]),
    "worker/comm": (["common", "worker/backend"], [ABSL, "gloo/"]),
    "worker/model": (["common", "common/checkpoint", "worker/backend", "worker/comm", "worker/kv"], [ABSL]),
    "worker/runtime": (["common", "common/checkpoint", "worker/backend", "worker/comm", "worker/cpu", "worker/cuda",
                        "worker/kv", "worker/model"], [ABSL]),
    "worker/transport": (["common", "common/rpc", "common/program", "worker/runtime"],
                         [ABSL, CLI, *GRPC, *PROTO]),
    "worker": (["common", "common/program", "common/rpc", "worker/runtime", "worker/transport"], [ABSL, CLI]),
    "tools": (["common", "common/program", "common/checkpoint", "common/rpc", "scheduler/text",
               "scheduler/engine", "scheduler/transport", "tools/simulate", "worker/runtime", "worker/transport"],
              [ABSL, CLI, JSON, *GRPC, *PROTO]),
    "tools/paging": (["common", "common/program", "scheduler/core", "scheduler/engine", "scheduler/transport", "tools",
                      "tools/simulate", "worker/runtime"], [ABSL, CLI, JSON]),
    "tools/simulate": (["common", "common/program", "scheduler/core", "tools"], [ABSL, CLI, JSON]),
}
# The core is pure: no threads, clocks, randomness, I/O, or order taken from a hash map.
PURE = ("scheduler/kv", "scheduler/core")
IMPURE = {"thread", "mutex", "condition_variable", "atomic", "chrono", "ctime", "random", "iostream",
          "fstream", "cstdio", "unordered_map", "unordered_set", "absl/synchronization/mutex.h",
          "absl/time/clock.h", "absl/random/random.h", "common/log.h", "common/clock.h",
          "common/bounded_queue.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^">]+)[">]')
OURS = ("common/", "scheduler/", "worker/", "tools/", "tests/")


def folder_of(path, root):
    return path.parent.relative_to(root).as_posix()


def violations(path, folder, arrows):
    ours, foreign = arrows[folder]
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(2)
        if folder in PURE and target in IMPURE:
            yield number, target, "the core has no threads, clocks, randomness, I/O or logging"
        if target.startswith(OURS):
            to = target.rsplit("/", 1)[0]
            if to != folder and to not in ours:
                yield number, target, f"{folder} may include {', '.join(ours) or 'nothing'} of ours"
            if target.endswith(".cuh") and not folder.startswith("worker/cuda"):
                yield number, target, "device headers stay inside worker/cuda"
        elif "/" in target or match.group(1) == '"':
            system = target.startswith(("sys/", "linux/", "arpa/", "netinet/", "bits/"))
            if not system and not target.startswith(tuple(foreign)):
                yield number, target, f"{folder} may use {', '.join(foreign)}"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    found = 0
    for top in ("common", "scheduler", "worker", "tools"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu", ".cuh"):
                continue
            folder = folder_of(path, root)
            if folder not in ARROWS:
                print(f"{folder}: not in the table of arrows")
                found += 1
                continue
            for number, target, why in violations(path, folder, ARROWS):
                print(f"{path.relative_to(root)}:{number}: includes {target}: {why}")
                found += 1
    print(f"{found} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
