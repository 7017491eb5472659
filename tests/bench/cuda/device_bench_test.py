"""tools/device_bench.sh on the emulated device: the table and the JSON have every group, and all checks passed.

usage: device_bench_test.py BIN_FOLDER
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tools/device_bench.sh"
BIN = pathlib.Path(sys.argv.pop(1))
TIMEOUT_S = 280


class DeviceBench(unittest.TestCase):
    def test_measures_everything_on_the_emulated_device(self):
        with tempfile.TemporaryDirectory(prefix="octavo-device-bench-") as folder:
            out = pathlib.Path(folder) / "results"
            run = subprocess.run([SCRIPT, "--emulated", "--bin", BIN, "--out", out], capture_output=True, text=True,
                                 timeout=TIMEOUT_S, check=False)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            table = (out / "device_bench.txt").read_text()
            result = json.loads((out / "device_bench.json").read_text())
        self.assertTrue(result["passed"])
        self.assertEqual((result["skipped"], result["failed"]), ([], []))
        self.assertIn("emulated", result["run"]["device"])
        for name in ("emulated_attention_test", "emulated_rows_test", "emulated_sampling_test", "cuda_host_test"):
            self.assertEqual(result["run"][name], "passed")
        self.assertTrue(all(check["passed"] for check in result["checks"]))
        self.assertEqual({row["group"] for row in result["rows"]},
                         {"ceiling", "attention", "norm", "gate", "rope", "embed", "sample", "copy", "product", "step",
                          "swap"})
        for row in result["rows"]:
            self.assertIn(row["name"], table)
            self.assertLessEqual(row["min_us"], row["median_us"])
            self.assertLessEqual(row["median_us"], row["max_us"])
            self.assertGreater(row["bytes"] + row["flops"], 0)
            self.assertEqual(row["group"] == "ceiling", "share" not in row)
        steps = [row for row in result["rows"] if row["group"] == "step"]
        self.assertTrue(all(0 <= row["idle_share"] < 1 and row["device_us"] > 0 for row in steps))

    def test_refuses_what_it_does_not_know(self):
        for arguments, message in ((["--frob"], "unknown argument --frob"), ([], "--out is required"),
                                   (["--out"], "--out needs a value"),
                                   (["--out", "/tmp", "--bin", "/nowhere"], "/nowhere has no octavo_cuda_bench")):
            run = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=20, check=False)
            self.assertEqual(run.returncode, 2)
            self.assertIn(message, run.stderr)


if __name__ == "__main__":
    unittest.main()
