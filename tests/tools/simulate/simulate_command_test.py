"""The program's own output: `octavo simulate` and `octavo advise` on a small trace."""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

OCTAVO = os.environ["OCTAVO"]
ROWS = [(0.5 * i, 200 + 37 * i % 400, 20 + 13 * i % 90) for i in range(60)]


def run(*arguments):
    return subprocess.run([OCTAVO, *arguments], capture_output=True, text=True, timeout=120)


class SimulateCommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.trace = self.path("trace.csv")
        with open(self.trace, "w", encoding="utf-8") as out:
            out.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
            for row in ROWS:
                out.write("%g,%d,%d\n" % row)

    def path(self, name):
        return str(pathlib.Path(self.folder.name) / name)

    def simulate(self, *arguments):
        result = run("simulate", "--trace", self.trace, "--json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return json.loads(result.stdout)

    def test_json_has_the_figures_of_the_run(self):
        report = self.simulate()
        self.assertEqual(report["requests_finished"], 60)
        self.assertEqual(report["requests_refused"], 0)
        self.assertEqual(report["prompt_tokens"], sum(row[1] for row in ROWS))
        self.assertEqual(report["output_tokens"], sum(row[2] for row in ROWS))
        self.assertAlmostEqual(report["tokens_per_s"], report["output_tokens"] / report["seconds"])
        self.assertEqual(report["capacity"]["max_model_len"], max(p + o for _, p, o in ROWS))
        self.assertEqual(report["preemptions"], 0)
        for name in ("ttft_ms", "itl_ms", "e2e_ms", "queue_ms"):
            values = report[name]
            self.assertLessEqual(values["p50"], values["p90"])
            self.assertLessEqual(values["p90"], values["p99"])
            self.assertLessEqual(values["p99"], values["max"])
        self.assertGreater(report["slots_filled"], 0.9)
        self.assertLessEqual(report["slots_filled"], 1)
        waste = report["waste"]
        held = waste["used"] + waste["reservation"] + waste["internal"]
        self.assertAlmostEqual(report["slots_filled"], waste["used"] / held)
        self.assertEqual(report["preemptions_by_mode"], {"recompute": 0, "swap": 0})

    def test_is_the_same_for_the_same_seed(self):
        flags = ["--request-rate", "20", "--num-blocks", "120"]
        self.assertEqual(self.simulate(*flags), self.simulate(*flags))
        self.assertNotEqual(self.simulate(*flags), self.simulate(*flags, "--seed", "2"))

    def test_reports_what_is_refused(self):
        report = self.simulate("--max-model-len", "400")
        refused = sum(p + o > 400 for _, p, o in ROWS)
        self.assertEqual(report["requests_refused"], refused)
        self.assertEqual(report["requests_finished"], 60 - refused)
        self.assertIn("max_model_len is 400", report["first_refusal"])

    def test_all_can_arrive_at_once(self):
        report = self.simulate("--request-rate", "inf")
        self.assertEqual(report["requests_finished"], 60)
        self.assertEqual(report["concurrency"]["peak"], 60)

    def test_writes_a_series_and_a_picture(self):
        self.simulate("--csv", self.path("run.csv"), "--plot", self.path("run.svg"))
        with open(self.path("run.csv"), encoding="utf-8", newline="") as rows:
            series = list(csv.DictReader(rows))
        self.assertGreater(len(series), 100)
        self.assertEqual(float(series[0]["seconds"]), 0)
        self.assertGreater(max(float(row["active_blocks"]) for row in series), 10)
        root = xml.etree.ElementTree.parse(self.path("run.svg")).getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("KV blocks", texts)
        self.assertIn("simulated time, seconds", texts)

    def test_paging_beats_reservations(self):
        runs = self.simulate("--num-blocks", "120", "--request-rate", "inf", "--sweep",
                             "kv-allocation=contiguous-max,contiguous-pow2,contiguous-oracle,paged")
        rates = [run["tokens_per_s"] for run in runs]
        self.assertEqual(rates, sorted(rates))
        self.assertTrue(all(run["requests_finished"] == 60 for run in runs))

    def test_sweeps_every_combination(self):
        runs = self.simulate("--sweep", "block-size=16,64", "--sweep", "kv-cache-dtype=bf16,int8")
        self.assertEqual([run["sweep"] for run in runs],
                         [{"block-size": size, "kv-cache-dtype": dtype}
                          for size in ("16", "64") for dtype in ("bf16", "int8")])
        self.assertGreater(runs[0]["slots_filled"], runs[2]["slots_filled"])
        self.assertGreater(runs[1]["capacity"]["num_blocks"],
                           1.9 * runs[0]["capacity"]["num_blocks"])
        table = run("simulate", "--trace", self.trace, "--sweep", "block-size=16,64").stdout
        self.assertEqual(len(table.splitlines()), 4)

    def test_wrong_usage_has_status_2(self):
        for flags in (["--trace", self.path("none.csv")], ["--block-size", "7"],
                      ["--sweep", "block-size=7"], ["--preset-device", "cpu"]):
            result = run("simulate", "--trace", self.trace, *flags)
            self.assertIn(result.returncode, (1, 2), flags)
            self.assertNotEqual(result.stderr, "", flags)
            self.assertEqual(result.stdout, "", flags)

    def test_advises(self):
        result = run("advise", "--trace", self.trace, "--num-blocks", "300", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        advice = json.loads(result.stdout)
        longest = max(p + o for _, p, o in ROWS)
        self.assertEqual(advice["max_model_len"][-1], {"share": 1.0, "tokens": longest, "refused": 0.0})
        self.assertEqual(len(advice["alternatives"]), 5)
        self.assertGreater(advice["blocks_needed"]["peak"], 0)
        text = run("advise", "--trace", self.trace, "--num-blocks", "300").stdout
        self.assertIn("How many sequences at once?", text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
