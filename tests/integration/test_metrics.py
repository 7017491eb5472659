"""What Prometheus sees."""
import unittest
import urllib.request

from service import Service, collect, greedy_request


def scrape(service):
    with urllib.request.urlopen(f"http://{service.metrics}/metrics", timeout=5) as page:
        text = page.read().decode()
    values = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            values[name] = float(value)
    return text, values


def total(values, name, *labels):
    """Sum of a family's series that carry all `labels`."""
    return sum(value for key, value in values.items()
               if key.split("{")[0] == name and all(label in key for label in labels))


class Metrics(unittest.TestCase):
    def test_counts_agree_with_what_was_served(self):
        with Service(["--num-gpu-blocks-override", "128", "--max-model-len", "2048"]) as service:
            before = scrape(service)[1]
            self.assertEqual(total(before, "octavo_kv_blocks", 'state="free"'), 128)
            for _ in range(3):
                collect(service.generation.Generate(greedy_request([504, 3575, 282, 4649, 314], 20), timeout=60))
            service.wait_idle()
            text, values = scrape(service)
        self.assertEqual(total(values, "octavo_kv_blocks"), 128)
        self.assertEqual(total(values, "octavo_kv_blocks", 'state="active"'), 0)
        self.assertEqual(total(values, "octavo_tokens_total", 'kind="generated"'), 60)
        self.assertEqual(total(values, "octavo_tokens_total", 'kind="prompt"'), 15)
        self.assertEqual(total(values, "octavo_requests_finished_total", 'reason="length"'), 3)
        self.assertEqual(total(values, "octavo_preemptions_total"), 0)
        self.assertEqual(total(values, "octavo_kv_bytes_per_token"), 23040)
        self.assertEqual(total(values, "octavo_worker_up"), 1)
        for family in ("octavo_kv_blocks", "octavo_preemptions_total", "octavo_requests", "octavo_tokens_total"):
            self.assertIn(f"# HELP {family} ", text)
            self.assertIn(f"# TYPE {family} ", text)


if __name__ == "__main__":
    unittest.main()
