"""Models with sliding windows behind a remote worker: their tables carry the padding block over the wire (kv.7).

Small random checkpoints whose logits transformers computed (tests/worker/model/make_tiny_checkpoints.py), so this runs
everywhere; test_gemma.py does the same with a real model."""
import concurrent.futures
import json
import struct
import unittest

from service import ROOT, Service, collect, greedy_request

FLAGS = ["--kv-cache-dtype", "float32", "--block-size", "8", "--max-prefill-chunk", "8"]
VOCABULARY = 256
OUTPUT = 60  # several windows of 16


def reference(folder):
    """[(prompt ids, most likely token after them)]"""
    prompts = json.loads((folder / "prompts.json").read_text())
    logits = (folder / "logits.f32").read_bytes()
    rows = 0
    cases = []
    for prompt in prompts:
        rows += len(prompt)
        row = struct.unpack_from(f"<{VOCABULARY}f", logits, (rows - 1) * VOCABULARY * 4)
        cases.append((prompt, max(range(VOCABULARY), key=row.__getitem__)))
    assert rows * VOCABULARY * 4 == len(logits)
    return cases


def answer(server, prompt, length):
    ids, _, _, usage, _ = collect(server.generation.Generate(greedy_request(prompt, length), timeout=60))
    return ids, usage


class Windows(unittest.TestCase):
    def test_a_small_pool_gives_the_tokens_of_the_reference_and_of_an_undisturbed_run(self):
        for name in ("gemma3-windows", "mistral-window"):
            with self.subTest(model=name):
                folder = ROOT / "tests/data/tiny" / name
                cases = reference(folder)
                long = max((prompt for prompt, _ in cases), key=len)
                self.assertGreater(len(long), 32)  # two windows
                others = [[(token + shift) % VOCABULARY for token in long] for shift in range(6)]
                service = lambda *flags: Service([*FLAGS, *flags], ["--dtype", "float32"], model=folder)  # noqa: E731
                with service() as server:
                    for prompt, wanted in cases:
                        self.assertEqual(answer(server, prompt, 1)[0], [wanted], prompt)
                    alone = [answer(server, prompt, OUTPUT)[0] for prompt in others]
                    found, usage = answer(server, others[0], OUTPUT)
                    self.assertEqual(found, alone[0])
                    self.assertGreaterEqual(usage.cached_tokens, 16)
                length = str(len(long) + OUTPUT)
                with service("--max-model-len", length, "--num-gpu-blocks-override", "30") as server:
                    with concurrent.futures.ThreadPoolExecutor(len(others)) as pool:
                        answers = list(pool.map(lambda prompt: answer(server, prompt, OUTPUT), others))
                self.assertEqual([ids for ids, _ in answers], alone)


if __name__ == "__main__":
    unittest.main()
