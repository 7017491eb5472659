"""What the compiled kernels may cost. static_check.py reads this; docs/benchmarks/cuda_static.md explains it.

The first row whose pattern is found in a kernel's name counts. A kernel without a row is only printed.
"""
import dataclasses
import re


@dataclasses.dataclass
class Limits:
    pattern: str
    threads: int = 256  # of a block, as launched
    shared_bytes: int = 0  # dynamic, of a block
    in_flight_bytes: int = 0  # requested from memory by a block while it computes
    min_in_flight_bytes: int = 0  # by all blocks of a multiprocessor together
    max_registers: int = 255  # of a thread
    max_local: int = 0  # loads and stores of local memory: spills and arrays indexed at run time
    min_counts: dict = dataclasses.field(default_factory=dict)  # SASS instructions of the kernel: {"mma": 16}

    def matches(self, name):
        return re.search(self.pattern, name) is not None


UNLIMITED = Limits("", max_local=1 << 30)
ELEMENT_BYTES = {"f16": 2, "bf16": 2, "int8": 1, "e4m3": 1, "e5m2": 1}
# 4.8 TB/s x 700 ns over 132 multiprocessors are 25 KB; twice that leaves room for barriers and ends of tiles.
PLANNED_IN_FLIGHT = 48 << 10
NEEDED_IN_FLIGHT = 25 << 10
TILE_TOKENS = 16


def decode(dtype, head_dim, head_tiles):
    """PagedDecodeKernel<dtype, head_dim, head_tiles>: the shape of DecodeShapeOf in paged_decode_shape.h.

    A tile of 16 tokens is head_dim / 16 products for K and as many for V per 8 query heads, and one ldmatrix for
    each 16 x 16 elements of 16 bits of both. One loop serves a row's own tiles and those of shared items, so nothing
    counts twice.
    """
    tile = 2 * TILE_TOKENS * head_dim * ELEMENT_BYTES[dtype] + (64 if dtype == "int8" else 0)
    budget = 72 << 10
    warps, stages = (2 if 8 * tile > budget else 4), 4
    while stages > 2 and warps * stages * tile > budget:
        stages -= 1
    heads = 8 * head_tiles
    ring = max(warps * stages * tile, warps * heads * (head_dim + 4) * 4)
    return Limits(rf"^PagedDecodeKernel<{dtype}, {head_dim}, {head_tiles}>", threads=32 * warps,
                  shared_bytes=ring + warps * heads * 12, in_flight_bytes=warps * (stages - 1) * tile,
                  min_in_flight_bytes=PLANNED_IN_FLIGHT, max_registers=168,
                  min_counts={"mma": head_dim // 8 * head_tiles, "cp.async": 1,
                              "ldmatrix": head_dim // 8 * ELEMENT_BYTES[dtype] // 2})


def prefill(dtype, head_dim):
    """PagedPrefillKernel<dtype, head_dim>: 64 rows of queries against passes of 64 tokens (32 at head_dim 256).

    A warp has 16 rows: head_dim / 16 x pass / 8 products for K and as many for V.
    """
    tiles = 2 if head_dim > 128 else 4
    tile = 2 * TILE_TOKENS * head_dim * ELEMENT_BYTES[dtype] + (64 if dtype == "int8" else 0)
    return Limits(rf"^PagedPrefillKernel<{dtype}, {head_dim}>", threads=128,
                  shared_bytes=64 * head_dim * 2 + 2 * tiles * tile + 128 * 4, in_flight_bytes=tiles * tile,
                  max_registers=248, min_counts={"mma": head_dim // 8 * tiles * 2, "cp.async": 1})


def quant(bits, has_min, batch_tiles):
    """QuantGemm<bits, has_min, batch_tiles>: the shape of QuantGemmShapeOf in quant_gemm_shape.h.

    A chunk is two groups of 32 columns: for each of the tiles of 16 rows two products per 8 rows of x and group, and
    two more per 8 rows of x for the sums that minima are multiplied with. Only weights count as in flight: x comes
    from the second-level cache.
    """
    tiles, warps, stages = (2 if batch_tiles == 1 else 4), (4 if batch_tiles == 4 else 8), 5
    unit = 64 * bits + 32 * (2 if has_min else 1)
    weights = 2 * tiles * unit
    stage = weights + 2 * batch_tiles * 512
    if warps * 2 * stage > 96 << 10:
        warps = 4
    while stages > 2 and warps * stages * stage > 96 << 10:
        stages -= 1
    ring = max(warps * stages * stage, warps * batch_tiles * 8 * (tiles * 16 + 4) * 4)
    flag = "true" if has_min else "false"
    return Limits(rf"^QuantGemm<{bits}, {flag}, {batch_tiles}>", threads=32 * warps, shared_bytes=ring + 16,
                  in_flight_bytes=warps * (stages - 1) * weights, min_in_flight_bytes=NEEDED_IN_FLIGHT,
                  max_registers=128 if warps == 8 else 224,
                  min_counts={"mma": 4 * batch_tiles * (tiles + has_min), "cp.async": 4})


def rows(pattern, threads, bytes_per_thread, **other):
    """Streams rows, every thread with some 16-byte loads under way; blocks are small, so that many share the work."""
    return Limits(pattern, threads=threads, in_flight_bytes=threads * bytes_per_thread,
                  min_in_flight_bytes=PLANNED_IN_FLIGHT, max_registers=64, **other)


LIMITS = [
    *(decode(dtype, head_dim, head_tiles) for dtype in ELEMENT_BYTES
      for head_dim, head_tiles in ((64, 1), (64, 2), (80, 1), (96, 1), (128, 1), (128, 2), (256, 1))),
    # Eight codes of e4m3 are one store of 8 bytes.
    rows(r"^RmsNormRow<e4m3, true>", 512, 32, shared_bytes=128, min_counts={"ld.128": 8}),
    rows(r"^RmsNormRow<.*true>", 512, 32, shared_bytes=128, min_counts={"ld.128": 6, "st.128": 1}),
    rows(r"^AddNormedRow<e4m3, true>", 512, 32, shared_bytes=192, min_counts={"ld.128": 12, "st.128": 2}),
    rows(r"^AddNormedRow<.*true>", 512, 32, shared_bytes=192, min_counts={"ld.128": 12, "st.128": 3}),
    *(quant(bits, has_min, batch_tiles) for bits in (4, 8) for has_min in (False, True) for batch_tiles in (1, 2, 4)),
    # Reads are 0.56 of 2.56 and 1.06 of 3.06 bytes a weight, so that share of what a copy needs is enough.
    *(Limits(rf"^DequantizeUnits<{bits}", threads=256, in_flight_bytes=256 * bits * 2,
             min_in_flight_bytes=NEEDED_IN_FLIGHT * (bits * 4 + 2) // (bits * 4 + 66), max_registers=64,
             min_counts={"st.128": 2}) for bits in (4, 8)),
    rows(r"^GateRow<.*true>", 128, 64, min_counts={"ld.128": 4, "st.128": 3}),
    rows(r"^GateScaledRow<.*true>", 1024, 64, shared_bytes=128, min_counts={"ld.128": 8}),
    rows(r"^ScaleSumsRow<true>", 128, 64, min_counts={"ld.128": 4, "st.128": 2}),
    rows(r"^SoftcapRow<true>", 128, 32, min_counts={"ld.128": 2, "st.128": 2}),
    rows(r"^AddBiasRow<true>", 128, 64, min_counts={"ld.128": 4, "st.128": 2}),
    rows(r"^CopyPieces", 256, 64, min_counts={"ld.128": 4, "st.128": 4}),
    Limits(r"^RopeAndWrite<\d+, true>", threads=128, max_registers=64, min_counts={"ld.128": 2, "st.128": 1}),
    Limits(r"^SampleRows", threads=512, shared_bytes=17 << 10, in_flight_bytes=512 * 64,
           min_in_flight_bytes=PLANNED_IN_FLIGHT, max_registers=64, min_counts={"ld.128": 1}),
    *(prefill(dtype, head_dim) for dtype in ELEMENT_BYTES for head_dim in (64, 80, 96, 128, 256)),
]


def limits_of(name):
    return next((row for row in LIMITS if row.matches(name)), UNLIMITED)
