"""float32 answers equal the reference, token by token, and no bit depends on how they were scheduled."""
import concurrent.futures
import struct
import unittest

from service import Service, collect, generation, greedy_cases, greedy_request

FLOAT32 = ["--kv-cache-dtype", "float32"]
LOGPROB_TOLERANCE = 5e-4
PARALLEL = 64


def answers(service, cases):
    """(token ids, bits of every reported log-probability) per case, all sent at once."""

    def one(case):
        request = greedy_request(case["prompt_ids"], case["max_new_tokens"])
        request.sampling.logprobs = 5
        ids, _, _, _, logprobs = collect(service.generation.Generate(request, timeout=300))
        bits = [struct.pack("<f", entry.logprob) for item in logprobs for entry in (item, *item.top)]
        return ids, b"".join(bits), logprobs

    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(one, cases))


class Fidelity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cases = greedy_cases()
        with Service(FLOAT32, ["--dtype", "float32"]) as service:
            cls.batched = answers(service, cls.cases)

    def test_every_case_gives_the_reference_tokens(self):
        compared = 0
        for case, (ids, _, _) in zip(self.cases, self.batched):
            wanted, margins = case["output_ids"], case["margins"]
            if case["near_tie"]:  # equal up to the first step that another correct program may decide otherwise
                end = next(i for i, margin in enumerate(margins) if margin < 0.01)
                wanted, ids = wanted[:end], ids[:end]
            self.assertEqual(ids, wanted, case["name"])
            compared += len(wanted)
        self.assertGreater(compared, 2000)

    def test_first_step_logprobs_are_within_tolerance(self):
        for case, (_, _, logprobs) in zip(self.cases, self.batched):
            top = {entry.token_id: entry.logprob for entry in logprobs[0].top}
            for token, logprob in case["first_top5"]:
                self.assertAlmostEqual(top[token], logprob, delta=LOGPROB_TOLERANCE, msg=case["name"])

    def check_same_bits(self, scheduler, worker, cases=None):
        indices = range(len(self.cases)) if cases is None else cases
        with Service([*FLOAT32, *scheduler], ["--dtype", "float32", *worker]) as service:
            got = answers(service, [self.cases[i] for i in indices])
        for i, (ids, bits, _) in zip(indices, got):
            self.assertEqual(ids, self.batched[i][0], self.cases[i]["name"])
            self.assertEqual(bits, self.batched[i][1], self.cases[i]["name"])

    def test_prefill_chunks_change_no_bit(self):
        for chunk in (1, 7, 64, 2048):
            with self.subTest(chunk=chunk):
                self.check_same_bits(["--max-prefill-chunk", str(chunk)], [], range(0, len(self.cases), 2))

    def test_block_sizes_change_no_bit(self):
        for size in (8, 32, 64):
            with self.subTest(block_size=size):
                self.check_same_bits(["--block-size", str(size)], [], range(1, len(self.cases), 2))

    def test_threads_change_no_bit(self):
        for threads in (1, 2):
            with self.subTest(threads=threads):
                self.check_same_bits([], ["--threads", str(threads)], range(0, len(self.cases), 3))

    def test_alone_or_batched_changes_no_bit(self):
        self.check_same_bits(["--max-num-seqs", "1"], [], range(0, len(self.cases), 5))

    def test_instruction_sets_change_no_bit(self):
        self.check_same_bits([], ["--isa", "avx2"], range(0, len(self.cases), 4))


class Int8(unittest.TestCase):
    """The fast default rounds activations, so it is its own reference; scheduling still changes no bit."""

    def test_scheduling_changes_no_bit(self):
        cases = greedy_cases()[::4]
        with Service() as service:
            path = service.state().workers[0].numeric_path
            alike = answers(service, cases)
        for scheduler, worker in ((["--max-prefill-chunk", "7"], []), (["--max-num-seqs", "1"], []),
                                  (["--block-size", "64"], ["--threads", "1"])):
            with self.subTest(scheduler=scheduler, worker=worker), Service(scheduler, worker) as service:
                self.assertEqual(service.state().workers[0].numeric_path, path)
                for case, a, b in zip(cases, alike, answers(service, cases)):
                    self.assertEqual(a[0], b[0], case["name"])
                    self.assertEqual(a[1], b[1], case["name"])


if __name__ == "__main__":
    unittest.main()
