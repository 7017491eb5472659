"""Gemma 3 270M, a real model with sliding windows: float32 answers equal the reference (make_gemma3_greedy.py) token by
token, with prompts that fit the window of 512 positions and prompts of more than two, computed and found in the cache.

Opt-in, because the model is a download under terms of its own: tools/fetch_model.sh --model gemma3-270m
"""
import concurrent.futures
import json
import os
import pathlib
import struct
import unittest

from service import REFERENCE, ROOT, Service, collect, generation, greedy_request

GEMMA = pathlib.Path(os.environ.get("OCTAVO_GEMMA_MODEL", ROOT / "build/models/gemma-3-270m-q4_k_m.gguf"))
LENGTH = ["--max-model-len", "2304"]
FLOAT32 = ["--kv-cache-dtype", "float32", *LENGTH]
# Between programs that only sum in other orders; the least margin of the reference is 0.0014.
NEAR_TIE = 1e-3
BLOCK = 16


def service(scheduler=(), worker=()):
    return Service([*FLOAT32, *scheduler], ["--dtype", "float32", *worker], model=GEMMA)


def answer(server, case):
    """(token ids, usage, bits of every reported log-probability)"""
    request = greedy_request(case["prompt_ids"], len(case["output_ids"]))
    request.sampling.logprobs = 3
    ids, _, _, usage, logprobs = collect(server.generation.Generate(request, timeout=600))
    return ids, usage, b"".join(struct.pack("<f", e.logprob) for item in logprobs for e in (item, *item.top))


@unittest.skipUnless(GEMMA.exists(), f"{GEMMA} is missing: tools/fetch_model.sh --model gemma3-270m")
class Gemma(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(REFERENCE / "gemma3_greedy.jsonl", encoding="ascii") as lines:
            cls.cases = {case["name"]: case for case in map(json.loads, lines)}

    def check_equal(self, case, ids):
        wanted = case["output_ids"]
        for step, margin in enumerate(case["margins"]):
            if margin < NEAR_TIE:
                return
            self.assertEqual(ids[step], wanted[step], f"{case['name']} at step {step} of {ids}")

    def test_every_prompt_gives_the_reference_tokens_alone_and_among_others(self):
        cases = list(self.cases.values())
        self.assertEqual(len(cases), 20)
        self.assertEqual(sum(len(case["prompt_ids"]) > 1024 for case in cases), 5)
        with service() as server:
            self.assertEqual(server.state().workers[0].numeric_path.split("/")[-1], "float32")
            with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
                answers = list(pool.map(lambda case: answer(server, case), cases))
        for case, (ids, _, _) in zip(cases, answers):
            self.check_equal(case, ids)
        # Other chunks, other blocks, nobody beside it, nothing found in the cache: not a bit changes.
        with service(["--max-prefill-chunk", "100", "--block-size", "32", "--max-num-seqs", "1"]) as server:
            for case, alike in zip(cases, answers):
                if case["name"] in ("capital", "window-plus", "long-1"):
                    ids, _, bits = answer(server, case)
                    self.assertEqual((ids, bits), (alike[0], alike[2]), case["name"])

    def test_prompts_found_in_the_cache_give_the_same_tokens(self):
        first, second = self.cases["long-1"], self.cases["long-2"]
        shared = len(first["prompt_ids"])
        self.assertEqual(second["prompt_ids"][:shared], first["prompt_ids"])
        with service() as server:
            ids, usage, bits = answer(server, first)
            self.check_equal(first, ids)
            self.assertEqual(usage.cached_tokens, 0)
            again, usage, same_bits = answer(server, first)
            self.assertEqual((again, same_bits), (ids, bits))
            self.assertGreaterEqual(usage.cached_tokens, shared - BLOCK)
            ids, usage, bits = answer(server, second)  # goes on where the first prompt ended
            self.check_equal(second, ids)
            self.assertGreaterEqual(usage.cached_tokens, shared // BLOCK * BLOCK - BLOCK)
            self.assertLess(usage.cached_tokens, len(second["prompt_ids"]))
        with service() as server:
            self.assertEqual(answer(server, second)[2], bits)

    def test_text_in_and_out(self):
        case = self.cases["capital"]
        with Service(LENGTH, model=GEMMA) as server:  # as served: bf16 cache
            request = generation.TokenizeRequest(text="The capital of France is")
            self.assertEqual(list(server.generation.Tokenize(request, timeout=30).token_ids), case["prompt_ids"][1:])
            request = generation.GenerateRequest(text="1, 2, 3, 4, 5, 6, 7,", max_tokens=3)
            request.sampling.temperature = 0
            _, text, _, usage, _ = collect(server.generation.Generate(request, timeout=60))
            self.assertEqual(text, " 8,")
            request = generation.TokenizeRequest(text="1, 2, 3, 4, 5, 6, 7,")
            without_bos = len(server.generation.Tokenize(request, timeout=30).token_ids)
            self.assertEqual(usage.prompt_tokens, without_bos + 1)


if __name__ == "__main__":
    unittest.main()
