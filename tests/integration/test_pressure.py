"""A pool far too small: requests are preempted and recomputed, and nobody can tell from the answers."""
import concurrent.futures
import random
import unittest

from service import Service, collect, generation

STREAMS, TOKENS = 64, 300
MODEL_LEN = ["--max-model-len", "1024"]


def run(service):
    draw = random.Random(7)
    prompts = [[draw.randrange(100, 49000) for _ in range(16)] for _ in range(STREAMS)]

    def one(index):
        request = generation.GenerateRequest(token_ids=generation.TokenIds(ids=prompts[index]), max_tokens=TOKENS,
                                             ignore_eos=True)
        request.sampling.temperature = 1.0
        request.sampling.seed = index
        return collect(service.generation.Generate(request, timeout=500))

    with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
        return list(pool.map(one, range(STREAMS)))


class Pressure(unittest.TestCase):
    def test_a_small_pool_gives_the_tokens_of_a_large_one(self):
        with Service([*MODEL_LEN, "--num-gpu-blocks-override", "2000"]) as service:
            large = run(service)
            self.assertEqual(service.state().preemptions, 0)
        with Service([*MODEL_LEN, "--num-gpu-blocks-override", "400"]) as service:
            small = run(service)
            state = service.wait_idle()
            self.assertGreater(state.preemptions, 0)
            self.assertEqual(state.blocks.active, 0)
            self.assertEqual(state.blocks.total, 400)
            self.assertEqual(sum(usage.preemptions for _, _, _, usage, _ in small), state.preemptions)
        for index, (a, b) in enumerate(zip(large, small)):
            self.assertEqual(len(a[0]), TOKENS)
            self.assertEqual(a[0], b[0], f"stream {index}")


if __name__ == "__main__":
    unittest.main()
