"""Workers that come late, die or return; processes that are told to end."""
import os
import signal
import subprocess
import threading
import time
import unittest
import socket

import grpc

from service import (BIN, MODEL, Process, Service, admin, collect, details, generation, greedy_request, health)

PROMPT = [504, 3575, 282, 4649, 314]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class WorkerFaults(unittest.TestCase):
    def test_a_worker_that_is_not_there_yet_is_waited_for(self):
        service = Service(ready=False, start_worker=False)
        service.worker_address = f"127.0.0.1:{free_port()}"
        with service:
            service.wait_state(admin.ENGINE_STATE_CONNECTING, 10)
            with self.assertRaises(grpc.RpcError) as caught:
                list(service.generation.Generate(greedy_request(PROMPT, 4), timeout=10))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertIn("RetryInfo", details(caught.exception))
            answer = service.health.Check(health.HealthCheckRequest(service="octavo.v1.Generation"), timeout=5)
            self.assertEqual(answer.status, health.HealthCheckResponse.NOT_SERVING)
            alive = service.health.Check(health.HealthCheckRequest(), timeout=5)
            self.assertEqual(alive.status, health.HealthCheckResponse.SERVING)
            service.start_worker(service.worker_address)
            service.wait_state(admin.ENGINE_STATE_READY)
            answer = service.health.Check(health.HealthCheckRequest(service="octavo.v1.Generation"), timeout=5)
            self.assertEqual(answer.status, health.HealthCheckResponse.SERVING)
            self.assertEqual(len(collect(service.generation.Generate(greedy_request(PROMPT, 4), timeout=30))[0]), 4)

    def test_streams_outlive_a_killed_worker(self):
        with Service() as service:
            wanted = collect(service.generation.Generate(greedy_request(PROMPT, 200), timeout=120))[0]
            results = {}

            def one(index):
                results[index] = collect(service.generation.Generate(greedy_request(PROMPT, 200), timeout=120))

            threads = [threading.Thread(target=one, args=(index,)) for index in range(4)]
            for thread in threads:
                thread.start()
            while service.state().generated_tokens < 300:
                time.sleep(0.02)
            service.worker.kill()
            service.wait_state(admin.ENGINE_STATE_RECOVERING, 20)
            service.start_worker(service.worker_address)
            for thread in threads:
                thread.join(120)
            self.assertEqual(sorted(results), [0, 1, 2, 3])
            for ids, _, reason, _, _ in results.values():
                self.assertEqual(ids, wanted)
                self.assertEqual(reason, generation.FINISH_REASON_LENGTH)
            self.assertGreater(service.state().epoch, 1)

    def test_a_vanished_client_leaves_nothing_behind(self):
        with Service() as service:
            script = ("import sys; sys.path.insert(0, '.'); import service as s, grpc;"
                      f"stub = s.generation_grpc.GenerationStub(grpc.insecure_channel('{service.target}'));"
                      "stream = stub.Generate(s.greedy_request([504], 3000)); next(stream); print('on', flush=True);"
                      "import time; time.sleep(60)")
            child = subprocess.Popen([os.sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
            self.assertEqual(child.stdout.readline().strip(), "on")
            child.kill()
            child.wait()
            child.stdout.close()
            service.wait_idle(20)


class Ending(unittest.TestCase):
    def test_sigterm_lets_running_streams_finish(self):
        with Service() as service:
            stream = service.generation.Generate(greedy_request(PROMPT, 150), timeout=60)
            next(stream)
            service.scheduler.child.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            with self.assertRaises(grpc.RpcError) as caught:
                list(service.generation.Generate(greedy_request(PROMPT, 4), timeout=10))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
            rest = list(stream)
            self.assertEqual(rest[-1].finish_reason, generation.FINISH_REASON_LENGTH)
            self.assertEqual(rest[-1].usage.generated_tokens, 150)
            self.assertEqual(service.scheduler.child.wait(30), 0)
            self.assertEqual(service.worker.stop(), 0)

    def test_a_second_sigterm_ends_at_once(self):
        with Service() as service:
            stream = service.generation.Generate(greedy_request(PROMPT, 4000), timeout=60)
            next(stream)
            service.scheduler.child.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            self.assertIsNone(service.scheduler.child.poll())
            service.scheduler.child.send_signal(signal.SIGTERM)
            self.assertEqual(service.scheduler.child.wait(5), 128 + signal.SIGTERM)
            with self.assertRaises(grpc.RpcError):
                list(stream)
            self.assertEqual(service.worker.stop(), 0)


class Refusals(unittest.TestCase):
    """What cannot work ends at once, with one clear line and exit status 1."""

    def run_binary(self, name, *arguments):
        done = subprocess.run([BIN / name, *map(str, arguments)], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def test_a_taken_port_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            code, text = self.run_binary("octavo-worker", "--model", MODEL, "--listen", f"127.0.0.1:{port}")
            self.assertEqual(code, 1, text)
            self.assertIn(str(port), text)
            code, text = self.run_binary("octavo-scheduler", "--model", MODEL, "--workers", "127.0.0.1:1", "--port", port,
                                         "--metrics-port", 0)
            self.assertEqual(code, 1, text)
            self.assertIn(str(port), text)

    def test_a_missing_model_is_named(self):
        for name, more in (("octavo-worker", ["--listen", "127.0.0.1:0"]),
                           ("octavo-scheduler", ["--workers", "127.0.0.1:1", "--port", 0, "--metrics-port", 0])):
            code, text = self.run_binary(name, "--model", "/nowhere/model.gguf", *more)
            self.assertEqual(code, 1, text)
            self.assertIn("/nowhere/model.gguf", text)

    def test_wrong_usage_exits_with_2(self):
        for name in ("octavo-worker", "octavo-scheduler", "octavo"):
            self.assertEqual(self.run_binary(name, "--no-such-flag")[0], 2)
        self.assertEqual(self.run_binary("octavo-scheduler", "--model", MODEL, "--workers", "127.0.0.1:1",
                                         "--block-size", 12)[0], 2)

    def test_a_pool_too_small_for_one_request_names_the_longest_that_fits(self):
        service = Service(["--num-gpu-blocks-override", "20", "--max-model-len", "1024"], ready=False)
        with service:
            self.assertEqual(service.scheduler.child.wait(60), 1)
            self.assertIn("320", service.scheduler.log())
            self.assertIn("1024", service.scheduler.log().replace(",", ""))

    def test_versions_and_help(self):
        for name in ("octavo-worker", "octavo-scheduler", "octavo"):
            done = subprocess.run([BIN / name, "--version"], capture_output=True, text=True, timeout=20)
            self.assertEqual((done.returncode, done.stdout.split()[0]), (0, "octavo"), name)
            done = subprocess.run([BIN / name, "--help"], capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 0)
            self.assertIn("Usage", done.stdout)


if __name__ == "__main__":
    unittest.main()
