"""The CUDA worker without a card: its kernels on an emulated device serve SmolLM2, token for token.

bf16 products round where the CPU backend's do, but add in another order and their attention rounds its
weights to bf16, so tokens must be equal up to the first step whose two best logits are close.
"""
import concurrent.futures
import unittest

from service import BIN, Service, collect, generation, greedy_cases, greedy_request
from test_metrics import scrape, total
from test_sharing import choices

# A step at which the CPU backend prefers its token by less than this many nats is not firm: about ten times
# the largest difference of logits seen between the two backends.
FIRM_MARGIN = 0.4
FLAGS = ["--kv-cache-dtype", "bf16", "--max-model-len", "128", "--max-num-seqs", "8", "--max-num-batched-tokens", "128"]
EMULATED = BIN / "octavo-worker-emulated"
EMULATED_RACE = BIN / "octavo-worker-emulated-race"  # checks the order of all that touches memory
TIMEOUT_S = 220
QUESTION = "What is the capital of France?"


def emulated(pool_blocks, *scheduler, worker=(), program=EMULATED):
    return Service([*FLAGS, "--num-gpu-blocks-override", str(pool_blocks), *scheduler],
                   ["--backend", "cuda", *worker], worker_program=program)


def chat(text, max_tokens, **fields):
    request = generation.GenerateRequest(chat=generation.Chat(
        messages=[generation.ChatMessage(role="user", content=text)]), max_tokens=max_tokens, ignore_eos=True, **fields)
    request.sampling.temperature = 0
    return request


def with_margins(request):
    request.sampling.logprobs = 2
    return request


def generate(service, request):
    return collect(service.generation.Generate(request, timeout=TIMEOUT_S))


def firm(answer):
    """Tokens of the reference before its first step that is not firm, and their log-probabilities."""
    ids, _, _, _, logprobs = answer
    for step, logprob in enumerate(logprobs):
        if logprob.top[0].logprob - logprob.top[1].logprob < FIRM_MARGIN:
            return ids[:step], logprobs[:step]
    return ids, logprobs


class EmulatedCuda(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cases = {case["name"]: case for case in greedy_cases()}
        cls.prompts = [cases[name]["prompt_ids"] for name in ("en-capital", "list-planets", "num-arith", "code-shell")]
        with Service([*FLAGS, "--num-gpu-blocks-override", "64"], ["--dtype", "bfloat16"]) as service:
            cls.answer = generate(service, with_margins(chat(QUESTION, 8)))
            cls.long = [generate(service, with_margins(greedy_request(ids, 40))) for ids in cls.prompts]

    def check_firm(self, reference, got):
        wanted, logprobs = firm(reference)
        wanted, logprobs = wanted[:len(got[0])], logprobs[:len(got[0])]
        self.assertEqual(got[0][:len(wanted)], wanted)
        for step, (theirs, ours) in enumerate(zip(logprobs, got[4])):
            self.assertAlmostEqual(ours.logprob, theirs.logprob, delta=FIRM_MARGIN / 4, msg=f"step {step}")
        return len(wanted)

    def test_serves_hits_prefixes_and_forks(self):
        with emulated(64) as service:
            answer = generate(service, with_margins(chat(QUESTION, 8)))
            self.check_firm(self.answer, answer)
            self.assertEqual(answer[3].cached_tokens, 0)
            capital = generate(service, with_margins(greedy_request(self.prompts[0], 8)))
            self.assertGreaterEqual(self.check_firm(self.long[0], capital), 4)
            again = generate(service, with_margins(chat(QUESTION, 8)))
            self.assertGreater(again[3].cached_tokens, 0)
            self.check_firm(self.answer, again)
            # Four choices of one prompt share its blocks, and copy the last one before they write.
            request = chat(QUESTION, 6)
            request.sampling.temperature, request.sampling.seed, request.sampling.n = 1.0, 11, 4
            four = choices(service.generation.Generate(request, timeout=TIMEOUT_S))
            self.assertEqual(sorted(four), [0, 1, 2, 3])
            self.assertGreater(len({tuple(ids) for ids, _, _, _ in four.values()}), 1)
            request.sampling.n = 1
            alone = choices(service.generation.Generate(request, timeout=TIMEOUT_S))
            self.assertEqual(alone[0][0][0], four[0][0][0])

    def test_is_preempted_by_swapping_and_by_recomputing(self):
        for mode in ("swap", "recompute"):
            with self.subTest(mode=mode), emulated(10, "--preemption-mode", mode,
                                                   worker=["--swap-space", "16MiB"]) as service:
                with concurrent.futures.ThreadPoolExecutor(len(self.prompts)) as pool:
                    got = list(pool.map(lambda ids: generate(service, with_margins(greedy_request(ids, 40))),
                                        self.prompts))
                self.assertGreaterEqual(sum(self.check_firm(*pair) for pair in zip(self.long, got)), 8)
                self.assertTrue(all(len(ids) == 40 for ids, _, _, _, _ in got))
                values = scrape(service)[1]
                self.assertGreater(total(values, "octavo_preemptions_total", f'mode="{mode}"'), 0)
                swapped = total(values, "octavo_swapped_bytes_total", 'direction="in"')
                self.assertEqual(swapped > 0, mode == "swap")

    def test_nothing_races(self):
        # Two steps in flight, replayed graphs, forks that copy blocks, swaps both ways: a race is an error of the
        # device, which ends the step.
        with emulated(8, "--preemption-mode", "swap", worker=["--swap-space", "16MiB"],
                      program=EMULATED_RACE) as service:
            with concurrent.futures.ThreadPoolExecutor(len(self.prompts)) as pool:
                got = list(pool.map(lambda ids: generate(service, with_margins(greedy_request(ids, 16))),
                                    self.prompts))
            self.assertTrue(all(len(ids) == 16 for ids, _, _, _, _ in got))
            for pair in zip(self.long, got):
                self.check_firm(*pair)
            values = scrape(service)[1]
            for direction in ("in", "out"):
                self.assertGreater(total(values, "octavo_swapped_bytes_total", f'direction="{direction}"'), 0)
            request = chat(QUESTION, 3)
            request.sampling.temperature, request.sampling.seed, request.sampling.n = 1.0, 11, 3
            self.assertEqual(sorted(choices(service.generation.Generate(request, timeout=TIMEOUT_S))), [0, 1, 2])
            self.assertNotIn("race", service.worker.log())
            self.assertNotIn("workers lost", service.scheduler.log())


if __name__ == "__main__":
    unittest.main()
