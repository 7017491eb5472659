"""The `octavo` program as operators' scripts use it."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

from service import BIN, MODEL, Process, Service, admin, admin_grpc, greedy_cases, read_port_file

OCTAVO = str(BIN / "octavo")


def octavo(*arguments, text=None, timeout=120):
    done = subprocess.run([OCTAVO, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(["--max-model-len", "2048"], ["--dtype", "float32"])
        cls.service.__enter__()
        cls.target = ["--target", cls.service.target]
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.service.__exit__(None, None, None)
        cls.folder.cleanup()

    def batch(self, lines, *arguments):
        source = self.path / "in.jsonl"
        source.write_text("".join(json.dumps(line) + "\n" for line in lines))
        code, out, err = octavo("batch", *self.target, "--input", source, *arguments)
        return code, [json.loads(line) for line in out.splitlines()], err

    def test_generate_streams_text(self):
        code, out, err = octavo("generate", *self.target, "--chat", "--temperature", 0, "--max-tokens", 48,
                                "What is the capital of France?")
        self.assertEqual(code, 0, err)
        self.assertIn("Paris", out)
        self.assertIn("generated tokens", err)

    def test_generate_prints_json_and_reads_stdin(self):
        code, out, err = octavo("generate", *self.target, "--json", "--temperature", 0, "--max-tokens", 8, "--logprobs", 2,
                                text="The capital of France is")
        self.assertEqual(code, 0, err)
        answer = json.loads(out)
        self.assertEqual(len(answer["outputs"][0]["token_ids"]), 8)
        self.assertEqual(len(answer["outputs"][0]["logprobs"]), 8)
        self.assertEqual(len(answer["outputs"][0]["logprobs"][0]["top"]), 2)
        self.assertIn("Paris", answer["outputs"][0]["text"])

    def test_generate_says_what_was_refused(self):
        code, _, err = octavo("generate", *self.target, "--max-tokens", 9000, "hi")
        self.assertEqual(code, 1)
        self.assertIn("INVALID_ARGUMENT", err)
        self.assertIn("2048", err.replace(",", ""))

    def test_an_interrupt_aborts_the_request(self):
        child = subprocess.Popen([OCTAVO, "generate", *self.target, "--max-tokens", "1900", "--ignore-eos", "Once"],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        child.stdout.read(1)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(10), 130)
        child.stdout.close()
        self.service.wait_idle(5)

    def test_batch_answers_every_line(self):
        lines = [{"id": f"g{i}", "prompt_token_ids": case["prompt_ids"], "max_tokens": 8, "temperature": 0, "ignore_eos": True}
                 for i, case in enumerate(greedy_cases()[:20])]
        lines += [{"id": "chat", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "logprobs": 0},
                  {"id": "bad", "prompt": "x", "max_tokens": 0},
                  {"id": "later", "prompt": "x", "min_tokens": 2},
                  {"id": "typo", "prompt": "x", "max_token": 1},
                  {"id": "g0", "prompt": "again"}]
        code, answers, err = self.batch(lines)
        self.assertEqual(code, 0, err)
        self.assertEqual(len(answers), len(lines))
        by_id = {answer["id"]: answer for answer in answers if "error" not in answer}
        errors = {answer["id"]: answer["error"] for answer in answers if "error" in answer}
        self.assertEqual(len(by_id), 21)
        for i in range(20):
            self.assertEqual(len(by_id[f"g{i}"]["outputs"][0]["token_ids"]), 8)
            self.assertNotIn("logprobs", by_id[f"g{i}"]["outputs"][0])
            self.assertEqual(by_id[f"g{i}"]["prompt_tokens"], len(lines[i]["prompt_token_ids"]))
        self.assertEqual(len(by_id["chat"]["outputs"][0]["logprobs"]), len(by_id["chat"]["outputs"][0]["token_ids"]))
        self.assertEqual({key: error["code"] for key, error in errors.items()},
                         {"bad": "INVALID_ARGUMENT", "later": "UNIMPLEMENTED", "typo": "INVALID_ARGUMENT",
                          "g0": "INVALID_ARGUMENT"})

    def test_batch_resumes(self):
        output = self.path / "resume.jsonl"
        lines = [{"id": str(i), "prompt": "Hello", "max_tokens": 3} for i in range(6)]
        self.assertEqual(self.batch(lines[:3], "--output", output)[0], 0)
        run_id = pathlib.Path(str(output) + ".run").read_text()
        with open(output, "a") as torn:
            torn.write('{"id": "3", "outp')
        code, _, err = self.batch(lines, "--output", output)
        self.assertEqual(code, 0, err)
        self.assertIn("3 answered", err)
        self.assertEqual(sorted(json.loads(line)["id"] for line in output.read_text().splitlines()), list("012345"))
        self.assertEqual(pathlib.Path(str(output) + ".run").read_text(), run_id)

    def test_status_shows_capacity(self):
        code, out, err = octavo("status", *self.target)
        self.assertEqual(code, 0, err)
        self.assertIn("2 x 30 layers x 3 kv_heads x 64 head_dim x 2 bytes = 23,040 bytes", out)
        state = json.loads(octavo("status", *self.target, "--json")[1])
        self.assertEqual(state["state"], "ENGINE_STATE_READY")
        self.assertEqual(int(state["capacity"]["bytes_per_token"]), 23040)

    def test_status_fails_fast_without_a_scheduler(self):
        start = time.monotonic()
        code, _, err = octavo("status", "--target", "127.0.0.1:1")
        self.assertEqual(code, 1)
        self.assertIn("UNAVAILABLE", err)
        self.assertLess(time.monotonic() - start, 3)

    def test_tokenize_reads_standard_input(self):
        code, out, err = octavo("tokenize", "--model", MODEL, "--json", text="x  42")
        self.assertEqual((code, json.loads(out)), (0, {"token_ids": [104, 256, 36, 34]}), err)
        code, out, _ = octavo("tokenize", "--model", MODEL, "--json", "--parse-special", text="<|im_end|>")
        self.assertEqual(json.loads(out), {"token_ids": [2]})
        done = subprocess.run([OCTAVO, "tokenize", "--model", MODEL, "--json"], input=b"ab\xff", capture_output=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"UTF-8", done.stderr)

    def test_every_reference_text_gives_the_reference_ids(self):
        path = pathlib.Path(__file__).resolve().parents[1] / "data/reference/tokenize.jsonl"
        cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for case in cases[::17]:  # all of them in the tokenizer's own test; here the program around it
            arguments = ["tokenize", "--model", MODEL, "--json"] + (["--parse-special"] if case["parse_special"] else [])
            done = subprocess.run([OCTAVO, *map(str, arguments)], input=case["text"].encode(), capture_output=True)
            self.assertEqual(json.loads(done.stdout)["token_ids"], case["ids"], case["name"])

    def test_bench_reports_latency_and_throughput(self):
        code, out, err = octavo("bench", *self.target, "--streams", 4, "--requests", 6, "--prompt-tokens", 32,
                                "--output-tokens", 8, "--shared-prefix", 16, "--json")
        self.assertEqual(code, 0, err)
        report = json.loads(out)
        self.assertEqual((report["output_tokens"], report["failed"]), (48, 0))
        for name in ("first_token_ms", "inter_token_ms", "stream_tokens_per_second"):
            self.assertGreaterEqual(report[name]["p99"], report[name]["median"])
            self.assertGreater(report[name]["median"], 0)


class Serve(unittest.TestCase):
    def test_one_process_serves_and_ends_cleanly(self):
        with tempfile.TemporaryDirectory() as folder:
            port_file = pathlib.Path(folder) / "serve.port"
            process = Process(folder, "serve", [OCTAVO, "serve", "--model", MODEL, "--port", "0", "--metrics-port", "0",
                                                "--port-file", port_file, "--kv-cache-memory-bytes", "256MiB",
                                                "--threads", "2", "--max-model-len", "1024"])
            try:
                ports = read_port_file(port_file, process)
                code, _, err = octavo("status", "--target", ports["grpc"], "--wait", 60)
                self.assertEqual(code, 0, err + process.log())
                code, out, err = octavo("generate", "--target", ports["grpc"], "--temperature", 0, "--max-tokens", 8,
                                        "The capital of France is")
                self.assertEqual(code, 0, err)
                self.assertIn("Paris", out)
                with urllib.request.urlopen(f"http://{ports['metrics']}/metrics", timeout=5) as page:
                    self.assertIn("octavo_kv_blocks", page.read().decode())
                self.assertEqual(process.stop(), 0, process.log())
            finally:
                if process.child.poll() is None:
                    process.kill()


if __name__ == "__main__":
    unittest.main()
