"""Writes data/dequantize_blocks.txt: random storage blocks and what gguf-py makes of them.

One line per block: type, the block in hex, its float32 values (little-endian) in hex.
Needs numpy and gguf (0.19.0 wrote the committed file).
"""
import pathlib

import gguf
import numpy as np

# Byte offsets of the fp16 fields of each block format (ggml-common.h).
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
BLOCKS = 3


def main():
    rng = np.random.default_rng(20240817)
    lines = []
    for name, offsets in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        for _ in range(BLOCKS):
            block = rng.integers(0, 256, size, dtype=np.uint8)
            for offset in offsets:
                half = np.array([rng.normal(0, 0.05)], dtype=np.float16)
                block[offset:offset + 2] = half.view(np.uint8)
            values = gguf.quants.dequantize(block, kind).astype("<f4")
            lines.append(f"{name} {block.tobytes().hex()} {values.tobytes().hex()}")
    path = pathlib.Path(__file__).parent / "data" / "dequantize_blocks.txt"
    path.write_text("\n".join(lines) + "\n")


main()
