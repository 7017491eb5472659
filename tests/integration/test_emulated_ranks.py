"""Two CUDA workers without cards that share SmolLM2 over a stand-in for NCCL: one worker's tokens, and a lost rank."""
import threading
import time
import unittest

from service import Service, admin, collect, greedy_cases, greedy_request
from test_emulated_cuda import EMULATED, FLAGS, TIMEOUT_S, firm, generate, with_margins

TOKENS = 12
LOGPROB_TOLERANCE = 0.1


def emulated(ranks):
    return Service([*FLAGS, "--num-gpu-blocks-override", "64"],
                   ["--backend", "cuda", "--communicator-timeout", "60"], worker_program=EMULATED, ranks=ranks)


class EmulatedRanks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cases = {case["name"]: case for case in greedy_cases()}
        cls.prompts = [cases[name]["prompt_ids"] for name in ("en-capital", "num-arith")]
        with emulated(1) as service:
            cls.alone = [generate(service, with_margins(greedy_request(ids, TOKENS))) for ids in cls.prompts]

    def test_two_ranks_give_the_tokens_of_one_and_outlive_a_killed_rank(self):
        with emulated(2) as service:
            self.assertEqual([worker.numeric_path for worker in service.state().workers], ["cuda/bf16/tp2"] * 2)
            compared = 0
            for prompt, alone in zip(self.prompts, self.alone):
                ids, _, _, _, logprobs = generate(service, with_margins(greedy_request(prompt, TOKENS)))
                wanted, theirs = firm(alone)
                self.assertEqual(ids[:len(wanted)], wanted)
                for step, (one, two) in enumerate(zip(theirs, logprobs)):
                    self.assertAlmostEqual(two.logprob, one.logprob, delta=LOGPROB_TOLERANCE, msg=f"step {step}")
                compared += len(wanted)
            self.assertGreaterEqual(compared, 8)

            before = service.state().generated_tokens
            ended = []
            stream = threading.Thread(target=lambda: ended.append(collect(service.generation.Generate(
                greedy_request(self.prompts[0], 3 * TOKENS), timeout=TIMEOUT_S))))
            stream.start()
            while service.state().generated_tokens < before + 3:
                time.sleep(0.02)
            killed = time.monotonic()
            service.workers[1].kill()
            service.wait_state(admin.ENGINE_STATE_RECOVERING, 20)
            self.assertLess(time.monotonic() - killed, 10)  # long before --communicator-timeout
            service.start_worker(service.worker_addresses[1], rank=1)
            stream.join(TIMEOUT_S)
            self.assertEqual(len(ended[0][0]), 3 * TOKENS)
            self.assertIn("workers lost", service.scheduler.log())


if __name__ == "__main__":
    unittest.main()
