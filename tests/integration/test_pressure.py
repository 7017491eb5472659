"""A pool far too small: requests are preempted, swapped or recomputed, and nobody can tell from the answers."""
import concurrent.futures
import random
import unittest

from service import Service, collect, generation
from test_metrics import scrape, total

STREAMS, TOKENS = 64, 300
SMALL_POOL = 400  # blocks; all streams at once come to need 1,280
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
    @classmethod
    def setUpClass(cls):
        with Service([*MODEL_LEN, "--num-gpu-blocks-override", "2000"]) as service:
            cls.large = run(service)
            assert service.state().preemptions == 0

    def check(self, scheduler=(), worker=()):
        """Returns the metrics of a run on the small pool whose tokens were those of the large one."""
        flags = [*MODEL_LEN, "--num-gpu-blocks-override", str(SMALL_POOL), *scheduler]
        with Service(flags, worker) as service:
            small = run(service)
            state = service.wait_idle()
            values = scrape(service)[1]
        self.assertGreater(state.preemptions, 0)
        self.assertEqual(state.blocks.active, 0)
        self.assertEqual(state.blocks.total, SMALL_POOL)
        self.assertEqual(sum(usage.preemptions for _, _, _, usage, _ in small), state.preemptions)
        self.assertEqual(total(values, "octavo_preemptions_total"), state.preemptions)
        self.assertEqual(total(values, "octavo_swap_blocks", 'state="active"'), 0)
        for index, (a, b) in enumerate(zip(self.large, small)):
            self.assertEqual(len(a[0]), TOKENS)
            self.assertEqual(a[0], b[0], f"stream {index}")
        return values

    def test_recompute(self):
        values = self.check(["--preemption-mode", "recompute"])
        self.assertEqual(total(values, "octavo_preemptions_total", 'mode="swap"'), 0)
        self.assertGreater(total(values, "octavo_preempted_tokens_total"), 0)
        self.assertEqual(total(values, "octavo_swapped_bytes_total"), 0)

    def test_recompute_of_whole_requests(self):
        self.check(["--preemption-mode", "recompute", "--preemption-granularity", "request"])

    def test_swap(self):
        values = self.check(["--preemption-mode", "swap"])
        self.assertEqual(total(values, "octavo_preemptions_total", 'mode="recompute"'), 0)
        self.assertEqual(total(values, "octavo_preempted_tokens_total"), 0)
        out = total(values, "octavo_swapped_bytes_total", 'direction="out"')
        back = total(values, "octavo_swapped_bytes_total", 'direction="in"')
        self.assertGreater(back, 0)
        self.assertLessEqual(back, out)
        self.assertEqual(out % (23040 * 16), 0)

    def test_swap_of_whole_requests(self):
        self.check(["--preemption-mode", "swap", "--preemption-granularity", "request"])

    def test_swap_into_very_little_space(self):
        # 20 blocks: now and then a victim fits, mostly none does.
        values = self.check(["--preemption-mode", "swap"], ["--swap-space", "8MiB"])
        self.assertGreater(total(values, "octavo_preemptions_total", 'mode="recompute"'), 0)

    def test_auto(self):
        # Copying memory beats computing on any machine.
        values = self.check()
        self.assertGreater(total(values, "octavo_preemptions_total", 'mode="swap"'), 0)

    def test_no_swap_space(self):
        values = self.check(worker=["--swap-space", "0"])
        self.assertEqual(total(values, "octavo_preemptions_total", 'mode="swap"'), 0)


    def test_so_it_does_with_an_int8_cache(self):
        int8 = [*MODEL_LEN, "--kv-cache-dtype", "int8"]
        with Service([*int8, "--num-gpu-blocks-override", "2000"]) as service:
            large = run(service)
        with Service([*int8, "--num-gpu-blocks-override", "400"]) as service:
            small = run(service)
            self.assertGreater(service.wait_idle().preemptions, 0)
        for index, (a, b) in enumerate(zip(large, small)):
            self.assertEqual(a[0], b[0], f"stream {index}")


if __name__ == "__main__":
    unittest.main()
