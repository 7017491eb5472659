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


class Undisturbed(unittest.TestCase):
    """Runs the streams on a pool that holds them all, once, for the classes below."""
    dtype = None

    @classmethod
    def setUpClass(cls):
        if cls.dtype is None:
            raise unittest.SkipTest("only what derives from it has tests")
        with Service([*MODEL_LEN, "--kv-cache-dtype", cls.dtype, "--num-gpu-blocks-override", "2000"]) as service:
            cls.large = run(service)
            assert service.state().preemptions == 0

    def check(self, scheduler=(), worker=()):
        """Returns the metrics of a run on the small pool whose tokens were those of the large one."""
        flags = [*MODEL_LEN, "--kv-cache-dtype", self.dtype, "--num-gpu-blocks-override", str(SMALL_POOL), *scheduler]
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


class Bf16(Undisturbed):
    dtype = "bf16"

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

    def test_without_prefix_cache(self):
        for mode in ("recompute", "swap"):
            with self.subTest(mode=mode):
                self.check(["--preemption-mode", mode, "--no-enable-prefix-caching"])


class Int8(Undisturbed):
    dtype = "int8"

    def test_recompute(self):
        self.check(["--preemption-mode", "recompute"])

    def test_auto(self):
        values = self.check()
        self.assertGreater(total(values, "octavo_swapped_bytes_total", 'direction="in"'), 0)


if __name__ == "__main__":
    unittest.main()
