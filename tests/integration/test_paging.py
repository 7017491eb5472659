"""Paged and contiguous KV allocation on the real worker: the same answers; paging holds more requests in the same bytes."""
import json
import subprocess
import unittest

import grpc

from service import BIN, MODEL, Service, collect, generation, greedy_cases

CONTIGUOUS = ("contiguous_max", "contiguous_pow2", "contiguous_oracle")


def bench(*arguments):
    command = [BIN / "octavo", "bench", "paging", "--model", MODEL, "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Paging(unittest.TestCase):
    def test_all_policies_give_the_same_tokens_and_paging_fills_what_it_holds(self):
        result = bench("--requests", 12, "--max-model-len", 512)
        self.assertTrue(result["same_tokens"])
        self.assertEqual(result["pool_tokens"], 1024)
        self.assertGreater(result["paged"]["slots_filled"], 0.9)
        self.assertLessEqual(result["contiguous_max"]["mean_concurrency"], 2)
        for policy in CONTIGUOUS:
            self.assertEqual(result[policy]["preemptions"], 0)
            self.assertGreater(result[policy]["tokens_per_s"], 0)
            self.assertLess(result[policy]["slots_filled"], result["paged"]["slots_filled"])
            self.assertLess(result[policy]["mean_concurrency"], result["paged"]["mean_concurrency"])
            self.assertGreater(result["gain_over"][policy]["achieved_of_predicted"]["median"], 0)

    def test_block_sizes_are_compared_on_the_same_bytes(self):
        result = bench("--trace", "classification", "--requests", 24, "--max-model-len", 512, "--policies", "paged",
                       "--block-size", "8,64", "--no-rates", "--kv-cache-dtype", "int8")
        self.assertTrue(result["same_tokens"])
        self.assertGreater(result["paged_8"]["slots_filled"], result["paged_64"]["slots_filled"])
        # 203 shared tokens: 25 blocks of 8, 3 of 64.
        self.assertGreater(result["paged_8"]["prefix_hit_rate"], result["paged_64"]["prefix_hit_rate"])

    def test_a_contiguous_server_answers_and_refuses_what_needs_sharing(self):
        flags = ["--kv-allocation", "contiguous-pow2", "--max-model-len", "2048"]
        with Service(flags, ["--dtype", "float32"]) as service:
            case = greedy_cases()[0]
            request = generation.GenerateRequest(token_ids=generation.TokenIds(ids=case["prompt_ids"]), max_tokens=16,
                                                 ignore_eos=True)
            request.sampling.temperature = 0
            tokens = collect(service.generation.Generate(request, timeout=120))[0]
            self.assertEqual(tokens, case["output_ids"][:16])
            request.sampling.n = 2
            with self.assertRaises(grpc.RpcError) as refused:
                collect(service.generation.Generate(request, timeout=120))
            self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("contiguous-pow2", refused.exception.details())


if __name__ == "__main__":
    unittest.main()
