"""Several CPU workers that share one model over Gloo: one rank's tokens, and ranks that are lost, refused or slow."""
import concurrent.futures
import os
import pathlib
import random
import re
import signal
import tempfile
import threading
import time
import unittest

import grpc

from service import (BIN, MODEL, Process, Service, admin, collect, generation, generation_grpc, greedy_cases,
                     greedy_request, read_port_file)
from test_fidelity import FLOAT32, LOGPROB_TOLERANCE, answers

PROMPT = [504, 3575, 282, 4649, 314]
# One thread each: the ranks of these tests share few cores.
WORKER = ["--dtype", "float32", "--threads", "1"]
STREAMS, TOKENS = 32, 60


def sample_streams(service, tokens=TOKENS):
    """What 32 streams at once sample, each with a seed of its own: token ids and preemptions of each."""
    draw = random.Random(11)
    prompts = [[draw.randrange(100, 49000) for _ in range(16)] for _ in range(STREAMS)]

    def one(index):
        request = generation.GenerateRequest(token_ids=generation.TokenIds(ids=prompts[index]), max_tokens=tokens,
                                             ignore_eos=True)
        request.sampling.temperature = 1.0
        request.sampling.seed = index
        ids, _, _, usage, _ = collect(service.generation.Generate(request, timeout=300))
        return ids, usage.preemptions

    with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
        return list(pool.map(one, range(STREAMS)))


class Fidelity(unittest.TestCase):
    def check_reference(self, ranks):
        cases = greedy_cases()
        with Service(FLOAT32, WORKER, ranks=ranks) as service:
            state = service.state()
            self.assertEqual([worker.numeric_path.rsplit("/", 1)[-1] for worker in state.workers],
                             [f"tp{ranks}"] * ranks)
            got = answers(service, cases)
        compared = 0
        for case, (ids, _, logprobs) in zip(cases, got):
            # Sums over ranks are other sums: only where the best token leads by a margin must it be the same.
            end = next((i for i, margin in enumerate(case["margins"]) if margin < 0.01), len(case["output_ids"]))
            self.assertEqual(ids[:end], case["output_ids"][:end], case["name"])
            compared += end
            top = {entry.token_id: entry.logprob for entry in logprobs[0].top}
            for token, logprob in case["first_top5"]:
                self.assertAlmostEqual(top[token], logprob, delta=LOGPROB_TOLERANCE, msg=case["name"])
        self.assertGreater(compared, 1900)

    def test_two_ranks_give_the_reference_tokens(self):  # 2 + 1 KV heads
        self.check_reference(2)

    def test_three_ranks_give_the_reference_tokens(self):
        self.check_reference(3)


class Streams(unittest.TestCase):
    """32 streams on two ranks; what preempts, swaps or cuts them changes no token."""

    @classmethod
    def setUpClass(cls):
        with Service(["--max-model-len", "512", "--num-gpu-blocks-override", "400"], WORKER, ranks=2) as service:
            cls.undisturbed = sample_streams(service)
            assert service.state().preemptions == 0

    def check(self, *scheduler):
        with Service(["--max-model-len", "512", *scheduler], WORKER, ranks=2) as service:
            got = sample_streams(service)
            state = service.wait_idle()
        self.assertEqual([ids for ids, _ in got], [ids for ids, _ in self.undisturbed])
        return state

    def test_chunks_and_small_batches_change_no_token(self):
        self.check("--max-prefill-chunk", "7", "--max-num-seqs", "5")

    def test_recompute_changes_no_token(self):
        self.assertGreater(self.check("--num-gpu-blocks-override", "60", "--preemption-mode", "recompute").preemptions, 0)

    def test_swap_changes_no_token(self):
        self.assertGreater(self.check("--num-gpu-blocks-override", "60", "--preemption-mode", "swap").preemptions, 0)


class Faults(unittest.TestCase):
    def long_streams(self, service, count=4, tokens=150):
        results = {}

        def one(index):
            results[index] = collect(service.generation.Generate(greedy_request(PROMPT, tokens), timeout=120))

        threads = [threading.Thread(target=one, args=(index,)) for index in range(count)]
        for thread in threads:
            thread.start()
        while service.state().generated_tokens < 100:
            time.sleep(0.02)
        return threads, results

    def check_ended_well(self, threads, results):
        for thread in threads:
            thread.join(120)
        self.assertEqual(len(results), len(threads))
        for ids, _, reason, _, _ in results.values():
            self.assertEqual(ids, results[0][0])
            self.assertEqual(len(ids), 150)
            self.assertEqual(reason, generation.FINISH_REASON_LENGTH)

    def test_streams_outlive_a_killed_rank(self):
        with Service(worker=WORKER, ranks=2) as service:
            threads, results = self.long_streams(service)
            killed = time.monotonic()
            service.workers[1].kill()
            service.wait_state(admin.ENGINE_STATE_RECOVERING, 20)
            self.assertLess(time.monotonic() - killed, 10)  # long before --communicator-timeout
            service.start_worker(service.worker_addresses[1], rank=1)
            self.check_ended_well(threads, results)
            self.assertIn("workers lost", service.scheduler.log())

    def test_a_rank_that_hangs_is_lost_after_the_timeout_and_named(self):
        with Service(worker=[*WORKER, "--communicator-timeout", "5"], ranks=2) as service:
            threads, results = self.long_streams(service)
            service.workers[1].child.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            try:
                service.wait_state(admin.ENGINE_STATE_RECOVERING, 20)
                self.assertLess(time.monotonic() - stopped, 20)
            finally:
                service.workers[1].child.send_signal(signal.SIGCONT)
            self.check_ended_well(threads, results)
            self.assertRegex(service.scheduler.log(), "rank 1 of 2 did not answer within 5s")

    def refusal(self, service):
        """The scheduler ends by itself, with exit status 1; what it says."""
        with service:
            self.assertEqual(service.scheduler.child.wait(60), 1)
            return service.scheduler.log()

    def test_ranks_in_the_wrong_order_stop_start_up(self):
        class Swapped(Service):
            def start_scheduler(self):
                self.worker_addresses.reverse()
                super().start_scheduler()

        service = Swapped(worker=WORKER, ranks=2, ready=False)
        log = self.refusal(service)
        self.assertIn(f"worker {service.worker_addresses[0]} is rank 1 of 2", log)

    def test_a_rank_of_another_geometry_stops_start_up(self):
        # Service starts ranks of one group only.
        service = Service(worker=WORKER, ranks=2, ready=False, start_worker=False)
        service.start_worker(rank=0)
        port_file = service.path / "odd.port"
        service.workers[1] = Process(service.path, "worker-1", [
            BIN / "octavo-worker", "--model", MODEL, "--listen", "127.0.0.1:0", "--port-file", port_file,
            "--tensor-parallel-size", "3", "--tensor-parallel-rank", "1", *WORKER])
        service.worker_addresses[1] = read_port_file(port_file, service.workers[1])["grpc"]
        log = self.refusal(service)
        self.assertIn(f"worker {service.worker_addresses[1]} is rank 1 of 3", log)
        self.assertIn("takes it for rank 1 of 2", log)

    def test_a_rank_that_cannot_allocate_stops_start_up_with_its_name(self):
        service = Service(worker=WORKER, ranks=2, ready=False, scheduler=["--num-gpu-blocks-override", "900000000"])
        self.assertRegex(self.refusal(service), r"worker 127\.0\.0\.1:\d+: .*bytes")


class Serve(unittest.TestCase):
    """`octavo serve --tensor-parallel-size`."""

    def start(self, folder, *flags):
        port_file = pathlib.Path(folder) / "serve.port"
        serve = Process(folder, "serve", [BIN / "octavo", "serve", "--model", MODEL, "--port", "0", "--metrics-port", "0",
                                          "--port-file", port_file, "--tensor-parallel-size", "2", *flags])
        return serve, read_port_file(port_file, serve)["grpc"]

    @staticmethod
    def ranks(serve):
        """Process ids of the workers, by rank."""
        children = pathlib.Path(f"/proc/{serve.child.pid}/task/{serve.child.pid}/children").read_text().split()
        found = {}
        for pid in children:
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            found[int(command[command.index(b"--tensor-parallel-rank") + 1])] = int(pid)
        return found

    def test_two_workers_answer_and_end_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            serve, target = self.start(folder, "--dtype", "float32")
            try:
                workers = self.ranks(serve)
                self.assertEqual(sorted(workers), [0, 1])
                with grpc.insecure_channel(target) as channel:
                    stub = generation_grpc.GenerationStub(channel)
                    stream = stub.Generate(greedy_request(PROMPT, 20), timeout=60, wait_for_ready=True)
                    # Not ready yet is UNAVAILABLE, not a wait: ask again.
                    for _ in range(200):
                        try:
                            ids = collect(stream)[0]
                            break
                        except grpc.RpcError as error:
                            self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
                            time.sleep(0.1)
                            stream = stub.Generate(greedy_request(PROMPT, 20), timeout=60)
                self.assertEqual(len(ids), 20)
                self.assertEqual(serve.stop(), 0, serve.log())
                for pid in workers.values():
                    self.assertFalse(os.path.exists(f"/proc/{pid}"), pid)
            finally:
                serve.kill()

    def test_a_killed_worker_ends_it_with_its_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            serve, _ = self.start(folder)
            try:
                workers = self.ranks(serve)
                os.kill(workers[1], signal.SIGKILL)
                self.assertEqual(serve.child.wait(30), 1)
                self.assertTrue(re.search(r"octavo serve: the worker of rank 1, process \d+, was ended by signal 9",
                                          serve.log()), serve.log())
                self.assertFalse(os.path.exists(f"/proc/{workers[0]}"))
            finally:
                serve.kill()


if __name__ == "__main__":
    unittest.main()
