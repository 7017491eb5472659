"""Checks what nvcc made of the kernels: registers, local memory, occupancy, matrix instructions.

  static_check.py LIBRARY

Prints a row per kernel and architecture, then every limit of static_limits.py that is broken; exits 1 when one
is. Needs no GPU.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import static_limits

# Of one multiprocessor (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
SHARED_BYTES = {"sm_80": 164 << 10, "sm_86": 100 << 10, "sm_89": 100 << 10, "sm_90": 228 << 10, "sm_90a": 228 << 10,
                "sm_100": 228 << 10}
MAX_WARPS = {"sm_80": 64, "sm_86": 48, "sm_89": 48, "sm_90": 64, "sm_90a": 64, "sm_100": 64}
MAX_BLOCKS = {"sm_80": 32, "sm_86": 16, "sm_89": 24, "sm_90": 32, "sm_90a": 32, "sm_100": 32}
REGISTERS, REGISTER_UNIT, SYSTEM_SHARED = 65536, 256, 1024
# Limits of bytes in flight are for 4.8 TB/s over 132 multiprocessors; these cards have 1 TB/s over 84 to 128, a third.
SHARE_IN_FLIGHT = {"sm_86": 1 / 3, "sm_89": 1 / 3}

DTYPES = ["f32", "f16", "bf16", "int8", "e4m3", "e5m2"]  # in the order of common/dtype.h

# Name here: SASS mnemonics.
INSTRUCTIONS = {
    "mma": r"[HIQ]MMA",
    "ldmatrix": r"LDSM",
    "movmatrix": r"MOVM",
    "cp.async": r"LDGSTS",
    "ld.128": r"LDG\.E\S*\.128",
    "st.128": r"STG\.E\S*\.128",
    "local": r"(?:LDL|STL)",
}
ADDRESS = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s")
PATTERNS = {name: re.compile(r"\b" + pattern + r"\b") for name, pattern in INSTRUCTIONS.items()}


def find_tools():
    """cuobjdump and nvdisasm of tests/requirements.txt, else of the toolkit."""
    packages = pathlib.Path(sysconfig.get_paths()["purelib"])
    folders = [*sorted(packages.glob("nvidia/*/bin")), pathlib.Path("/usr/local/cuda/bin")]
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    cuobjdump = shutil.which("cuobjdump", path=path)
    if cuobjdump is None:
        sys.exit("no cuobjdump: install tests/requirements.txt, or put the CUDA toolkit's into the PATH")
    return cuobjdump, path


CUOBJDUMP, TOOL_PATH = find_tools()


def run(*arguments):
    environment = {**os.environ, "PATH": TOOL_PATH}  # it calls nvdisasm
    return subprocess.run([CUOBJDUMP, *arguments], capture_output=True, text=True, check=True, env=environment).stdout


def resources(library):
    """{(architecture, mangled name): {"REG": n, "SHARED": n, ...}}"""
    found, architecture, name = {}, None, None
    for line in run("--dump-resource-usage", library).splitlines():
        if match := re.search(r"arch = (sm_\w+)", line):
            architecture = match.group(1)
        elif match := re.search(r"Function (\S+):", line):
            name = match.group(1)
        elif "REG:" in line and name:
            found[architecture, name] = {key: int(value) for key, value in re.findall(r"([A-Z]+(?:\[\d+\])?):(\d+)", line)}
            name = None
    return found


def instructions(library):
    """{(architecture, mangled name): Counter of INSTRUCTIONS}"""
    found, architecture, counts = {}, None, None
    for line in run("--dump-sass", library).splitlines():
        if match := re.search(r"arch = (sm_\w+)", line):
            architecture = match.group(1)
        elif match := re.search(r"Function : (\S+)", line):
            counts = found[architecture, match.group(1)] = collections.Counter()
        elif counts is not None and ADDRESS.match(line):
            for name, pattern in PATTERNS.items():
                counts[name] += bool(pattern.search(line))
    return found


def demangled(names):
    texts = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, texts.splitlines()))


def short(name):
    """Kernel<bf16, 64, 1> without namespaces, parameters and casts."""
    name = re.sub(r"^void ", "", name).replace("(anonymous namespace)::", "")
    name = re.sub(r"_GLOBAL__N__\w+::", "", name)
    depth = 0
    for i, char in enumerate(name):
        depth += (char == "<") - (char == ">")
        if char == "(" and depth == 0:
            name = name[:i]
            break
    name = re.sub(r"\(octavo::DType\)(\d+)", lambda match: DTYPES[int(match.group(1))], name)
    return re.sub(r"\((?:int|bool|octavo::\w+)\)", "", name.replace("octavo::cuda::", ""))


def blocks_per_multiprocessor(architecture, limits, registers):
    warps = (limits.threads + 31) // 32
    per_warp = -(-max(registers, 1) * 32 // REGISTER_UNIT) * REGISTER_UNIT
    return min(MAX_BLOCKS[architecture], MAX_WARPS[architecture] // warps, REGISTERS // per_warp // warps,
               SHARED_BYTES[architecture] // (limits.shared_bytes + SYSTEM_SHARED))


def broken(limits, architecture, registers, in_flight, counts):
    if registers > limits.max_registers:
        yield f"{registers} registers; the limit is {limits.max_registers}"
    if counts["local"] > limits.max_local:
        yield f"{counts['local']} loads and stores of local memory; the limit is {limits.max_local}"
    planned = int(limits.min_in_flight_bytes * SHARE_IN_FLIGHT.get(architecture, 1))
    if in_flight < planned:
        yield f"{in_flight} bytes in flight on a multiprocessor; at least {planned} are planned"
    for name, minimum in limits.min_counts.items():
        if counts[name] < minimum:
            yield f"{counts[name]} {name} instructions; at least {minimum} are planned"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    arguments = parser.parse_args()
    used, counted = resources(arguments.library), instructions(arguments.library)
    names = demangled(sorted({name for _, name in used}))
    columns = list(INSTRUCTIONS)
    print(f"{'kernel':<46} {'arch':<7} {'regs':>4} {'blocks':>6} {'warps':>5} {'KB in flight':>12} "
          + " ".join(f"{c:>9}" for c in columns))
    problems, unlimited, matched = [], set(), set()
    for architecture, mangled in sorted(used, key=lambda key: (short(names[key[1]]), key[0])):
        name = short(names[mangled])
        limits = static_limits.limits_of(name)
        matched.add(limits.pattern)
        registers, counts = used[architecture, mangled]["REG"], counted.get((architecture, mangled), collections.Counter())
        if limits is static_limits.UNLIMITED:
            unlimited.add(name)
            occupancy = f"{'':>6} {'':>5} {'':>12}"
            in_flight = 0
        else:
            blocks = blocks_per_multiprocessor(architecture, limits, registers)
            in_flight = blocks * limits.in_flight_bytes
            occupancy = f"{blocks:>6} {blocks * ((limits.threads + 31) // 32):>5} {in_flight / 1024:>12.0f}"
        print(f"{name[:46]:<46} {architecture:<7} {registers:>4} {occupancy} "
              + " ".join(f"{counts[c]:>9}" for c in columns))
        problems += [f"{name} {architecture}: {text}" for text in broken(limits, architecture, registers, in_flight, counts)]
    if unlimited:
        print("kernels without a row of limits:", ", ".join(sorted(unlimited)))
    unused = [row.pattern for row in static_limits.LIMITS if row.pattern not in matched]
    if unused:
        print("rows without a kernel:", ", ".join(unused))
    print("\n".join(problems) or f"{len(used)} kernels, none beyond a limit")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
