"""A preset's shape with weights of noise, over real processes: no file is read, prompts are token ids."""
import math
import tempfile
import unittest

import grpc

from service import BIN, Process, Service, collect, generation, greedy_request

FLAGS = ["--load-format", "dummy"]
SCHEDULER = [*FLAGS, "--max-model-len", "64", "--max-num-seqs", "4", "--max-num-batched-tokens", "64"]
WORKER = [*FLAGS, "--kv-cache-memory-bytes", "16MiB"]
PROMPT = [504, 3575, 282, 4649, 314]


class Dummy(unittest.TestCase):
    def test_serves_token_ids_and_refuses_texts(self):
        with Service(SCHEDULER, WORKER, model="smollm2-135m") as service:
            self.assertEqual(service.generation.GetModel(generation.GetModelRequest(), timeout=5).name,
                             "smollm2-135m-dummy")
            request = greedy_request(PROMPT, 8)
            request.sampling.logprobs = 2
            ids, text, reason, _, logprobs = collect(service.generation.Generate(request, timeout=60))
            self.assertEqual((len(ids), text, reason), (8, "", generation.FINISH_REASON_LENGTH))
            self.assertTrue(all(math.isfinite(entry.logprob) for step in logprobs for entry in step.top))
            again = collect(service.generation.Generate(request, timeout=60))[0]
            self.assertEqual(again, ids)
            # The likeliest token is often the one before, whose embedding is in the hidden state.
            request.sampling.temperature, request.sampling.seed = 1.0, 7
            sampled = collect(service.generation.Generate(request, timeout=60))[0]
            self.assertGreater(len(set(sampled)), 1)

            chat = generation.Chat(messages=[generation.ChatMessage(role="user", content="Hello")])
            for call in (
                    lambda: collect(service.generation.Generate(
                        generation.GenerateRequest(text="Hello", max_tokens=1), timeout=5)),
                    lambda: collect(service.generation.Generate(
                        generation.GenerateRequest(chat=chat, max_tokens=1), timeout=5)),
                    lambda: service.generation.Tokenize(generation.TokenizeRequest(text="Hello"), timeout=5),
                    lambda: service.generation.Detokenize(generation.DetokenizeRequest(token_ids=[1]), timeout=5)):
                with self.assertRaises(grpc.RpcError) as refused:
                    call()
                self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
                self.assertIn("send token_ids", refused.exception.details())

    def test_refuses_shapes_that_the_decoder_does_not_compute(self):
        with tempfile.TemporaryDirectory(prefix="octavo-test-") as folder:
            worker = Process(folder, "opt", [BIN / "octavo-worker", *FLAGS, "--model", "opt-13b",
                                            "--listen", "127.0.0.1:0"])
            self.assertEqual(worker.child.wait(20), 1)
            self.assertIn("opt-13b", worker.log())


if __name__ == "__main__":
    unittest.main()
