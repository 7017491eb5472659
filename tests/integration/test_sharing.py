"""Blocks that requests share: prefixes, choices, turns; and every counter against what was sent."""
import concurrent.futures
import json
import random
import subprocess
import unittest

import grpc

from service import BIN, Service, admin, collect, generation, greedy_request
from test_metrics import scrape, total

BLOCK = 16
FLAGS = ["--max-model-len", "2048", "--num-gpu-blocks-override", "1200"]


def tokens(seed, count):
    draw = random.Random(seed)
    return [draw.randrange(100, 49000) for _ in range(count)]


def choices(stream):
    """By index: (token ids, text, finish reason, usage)."""
    found = {}
    for message in stream:
        ids, text, reason, usage = found.get(message.index, ([], "", 0, None))
        assert reason == 0, "a message after the last"
        found[message.index] = (ids + list(message.token_ids), text + message.text, message.finish_reason, message.usage)
    return found


class Counters:
    """What the metrics gained since the last look."""

    def __init__(self, service):
        self.service = service
        self.before = scrape(service)[1]

    def gain(self, *names):
        """Names as "family" or "family{label}"; the service must be idle."""
        self.service.wait_idle()
        after = scrape(self.service)[1]
        gained = []
        for name in names:
            family, _, label = name.partition("{")
            labels = [label.rstrip("}")] if label else []
            gained.append(total(after, family, *labels) - total(self.before, family, *labels))
        self.before = after
        return gained[0] if len(gained) == 1 else gained


class Sharing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(FLAGS)
        cls.service.__enter__()
        cls.stub = cls.service.generation

    @classmethod
    def tearDownClass(cls):
        cls.service.__exit__(None, None, None)

    def setUp(self):
        self.service.admin.FlushPrefixCache(admin.FlushPrefixCacheRequest(), timeout=5)
        self.counters = Counters(self.service)

    def ask(self, ids, max_tokens=1, **fields):
        return collect(self.stub.Generate(greedy_request(ids, max_tokens, **fields), timeout=400))

    def ask_all(self, prompts, max_tokens):
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            return list(pool.map(lambda ids: self.ask(ids, max_tokens), prompts))

    def test_a_system_prompt_of_a_hundred_requests_is_computed_and_held_once(self):
        system = tokens(1, 512)
        prompts = [system + tokens(100 + i, 6) for i in range(100)]
        # All at once: nothing is cached when they arrive.
        with concurrent.futures.ThreadPoolExecutor(1) as watcher:
            answers = watcher.submit(self.ask_all, prompts, 8)
            most_saved = 0
            while not answers.done():
                values = scrape(self.service)[1]
                active = total(values, "octavo_kv_blocks", 'state="active"')
                # Each has one block of its own; together they never hold more than these and one system prompt.
                self.assertLessEqual(active, 32 + 100)
                most_saved = max(most_saved, total(values, "octavo_kv_saved_blocks"))
            self.assertEqual(len(answers.result()), 100)
        self.assertGreater(most_saved, 32)
        self.assertEqual(self.counters.gain('octavo_tokens_total{kind="prompt"}', "octavo_prefix_cache_hit_tokens_total",
                                            "octavo_prefix_cache_query_tokens_total"),
                         [512 + 100 * 6, 99 * 512, 100 * 518])
        self.assertEqual(sorted(usage.cached_tokens for _, _, _, usage, _ in answers.result()), [0] + [512] * 99)
        # Again, one after the other: now all of them find it.
        for ids in prompts[:3]:
            self.ask(ids, 2)
        self.assertEqual(self.counters.gain('octavo_tokens_total{kind="prompt"}'), 3 * 6)

    def test_eight_choices_hold_their_prompt_once_and_copy_its_last_block(self):
        request = generation.GenerateRequest(token_ids=generation.TokenIds(ids=tokens(2, 100)), max_tokens=24,
                                             ignore_eos=True)
        request.sampling.seed, request.sampling.n = 11, 8
        stream = self.stub.Generate(request, timeout=400)
        first = choices(stream)
        self.assertEqual(sorted(first), list(range(8)))
        self.assertEqual(len({tuple(choice[0]) for choice in first.values()}), 8)
        for ids, _, reason, usage in first.values():
            self.assertEqual((len(ids), reason, usage.prompt_tokens, usage.generated_tokens),
                             (24, generation.FINISH_REASON_LENGTH, 100, 24))
        self.assertEqual(self.counters.gain("octavo_kv_copies_on_write_total", 'octavo_tokens_total{kind="prompt"}',
                                            'octavo_tokens_total{kind="generated"}',
                                            'octavo_requests_finished_total{reason="length"}'), [7, 100, 192, 1])
        # 6 full blocks and the last one, held by 7 more.
        self.assertGreaterEqual(total(self.counters.before, "octavo_kv_saved_blocks_total"), 7 * 7)
        self.assertEqual({i: c[0] for i, c in choices(self.stub.Generate(request, timeout=400)).items()},
                         {i: c[0] for i, c in first.items()})
        request.sampling.n = 1
        self.assertEqual(choices(self.stub.Generate(request, timeout=400))[0][0], first[0][0])

    def test_best_of_returns_the_likeliest_in_order(self):
        request = generation.GenerateRequest(token_ids=generation.TokenIds(ids=tokens(3, 20)), max_tokens=12,
                                             ignore_eos=True)
        request.sampling.seed, request.sampling.n, request.sampling.logprobs = 5, 6, 0
        sums, ids = {}, {}
        for message in self.stub.Generate(request, timeout=400):
            sums[message.index] = sums.get(message.index, 0) + sum(entry.logprob for entry in message.logprobs)
            ids.setdefault(message.index, []).extend(message.token_ids)
        best = sorted(sums, key=lambda index: -sums[index])[:2]
        request.sampling.n, request.sampling.best_of = 2, 6
        answers = choices(self.stub.Generate(request, timeout=400))
        self.assertEqual([answers[0][0], answers[1][0]], [ids[best[0]], ids[best[1]]])
        line = {"prompt_token_ids": tokens(3, 20), "max_tokens": 12, "ignore_eos": True, "seed": 5, "n": 2, "best_of": 6}
        done = subprocess.run([BIN / "octavo", "batch", "--target", self.service.target, "--input", "-"],
                              input=json.dumps(line), capture_output=True, text=True, timeout=60)
        answer = json.loads(done.stdout)
        self.assertEqual([output["token_ids"] for output in answer["outputs"]], [ids[best[0]], ids[best[1]]])
        self.assertEqual(answer["prompt_tokens"], 20)
        self.assertNotIn("logprobs", answer["outputs"][0])

    def test_a_turn_of_a_conversation_computes_only_what_is_new(self):
        conversation = []
        for turn in range(10):
            new = tokens(200 + turn, 21 + turn)
            unseen = len(new) + (1 if turn else 0)  # the last token of an answer was never fed
            conversation += new
            answer = self.ask(conversation, 9)
            computed = self.counters.gain('octavo_tokens_total{kind="prompt"}')
            self.assertLessEqual(computed, unseen + BLOCK - 1, f"turn {turn}")
            self.assertEqual(computed, len(conversation) - answer[3].cached_tokens)
            conversation += answer[0]

    def test_salts_never_share_and_a_request_can_take_no_part(self):
        ids = tokens(4, 50)
        cached = lambda **fields: self.ask(ids, **fields)[3].cached_tokens  # noqa: E731
        self.assertEqual(cached(cache_salt="alice"), 0)
        self.assertEqual(cached(cache_salt="bob"), 0)
        self.assertEqual(cached(), 0)
        self.assertEqual(cached(cache_salt="alice"), 48)
        self.assertEqual(cached(prefix_cache=False), 0)
        self.assertEqual(cached(cache_salt="carol", prefix_cache=False), 0)
        self.assertEqual(cached(cache_salt="carol"), 0)
        self.assertEqual(self.counters.gain("octavo_prefix_cache_query_tokens_total",
                                            "octavo_prefix_cache_hit_tokens_total"), [5 * 50, 48])

    def test_a_flush_forgets_and_says_how_much(self):
        ids = tokens(5, 100)
        self.ask(ids)
        self.assertEqual(self.service.state().blocks.cached, 6)
        self.assertEqual(self.service.admin.FlushPrefixCache(admin.FlushPrefixCacheRequest(), timeout=5).blocks, 6)
        state = self.service.state()
        self.assertEqual((state.blocks.cached, state.blocks.free), (0, 1200))
        self.assertEqual(self.ask(ids)[3].cached_tokens, 0)
        done = subprocess.run([BIN / "octavo", "status", "--target", self.service.target, "--flush-prefix-cache"],
                              capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("6 blocks", done.stdout)
        self.assertEqual(self.counters.gain("octavo_prefix_cache_flushes_total"), 2)

    def test_operators_see_requests_tables_and_reasons(self):
        stream = self.stub.Generate(greedy_request(tokens(6, 40), 1500, request_id="long"), timeout=400)
        next(stream)
        info = self.service.admin.ListRequests(admin.ListRequestsRequest(), timeout=5).requests
        self.assertEqual([(one.request_id, one.running, one.prompt_tokens) for one in info], [("long", True, 40)])
        table = self.service.admin.GetBlockTable(admin.GetBlockTableRequest(request_id="long"), timeout=5)
        entries = table.choices[0].blocks
        self.assertEqual([entry.holders for entry in entries], [1] * len(entries))
        self.assertTrue(all(entry.published for entry in entries[:2]))
        why = self.service.admin.ExplainRequest(admin.ExplainRequestRequest(request_id="long"), timeout=5)
        self.assertEqual(why.reason, admin.WAIT_REASON_NONE)
        with self.assertRaises(grpc.RpcError) as caught:
            self.service.admin.ExplainRequest(admin.ExplainRequestRequest(request_id="nobody"), timeout=5)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
        stream.cancel()


class Pressure(unittest.TestCase):
    def test_counters_follow_evictions_preemptions_and_waiting(self):
        with Service(["--max-model-len", "512", "--num-gpu-blocks-override", "40", "--kv-watermark", "0",
                      "--preemption-mode", "recompute"]) as service:
            counters = Counters(service)
            ask = lambda ids, n: service.generation.Generate(greedy_request(ids, n), timeout=400)  # noqa: E731
            collect(ask(tokens(1, 330), 1))  # 20 full blocks stay cached
            self.assertEqual(service.state().blocks.cached, 20)
            collect(ask(tokens(2, 500), 1))  # 32 blocks: 20 free ones, 12 cached ones
            self.assertEqual(counters.gain("octavo_prefix_cache_evictions_total"), 12)
            # Two that grow to 31 blocks each: the junior one is preempted, and finds what it did not lose.
            first, second = ask(tokens(3, 160), 330), ask(tokens(4, 160), 330)
            usages = [collect(stream)[3] for stream in (first, second)]
            preemptions = sum(usage.preemptions for usage in usages)
            self.assertGreaterEqual(preemptions, 1)
            counted, by_vllm, lost, computed, recovered = counters.gain(
                "octavo_preemptions_total", "vllm:num_preemptions_total", "octavo_preempted_tokens_total",
                'octavo_tokens_total{kind="prompt"}', "octavo_prefix_cache_recovered_tokens_total")
            self.assertEqual((counted, by_vllm), (preemptions, preemptions))
            self.assertGreaterEqual(lost, 160)
            self.assertGreaterEqual(computed + recovered, 320 + lost)

            # One that waits says why.
            running = ask(tokens(5, 300), 200)
            next(running)
            waiting = service.generation.Generate(greedy_request(tokens(6, 480), 20, request_id="stuck"), timeout=400)
            waiting.initial_metadata()
            why = service.admin.ExplainRequest(admin.ExplainRequestRequest(request_id="stuck"), timeout=5)
            self.assertEqual(why.reason, admin.WAIT_REASON_BLOCKS, why)
            self.assertEqual(why.blocks_needed, 30)
            self.assertLess(why.blocks_free, 30)
            self.assertIn("30 blocks", why.text)
            values = scrape(service)[1]
            self.assertEqual(total(values, "octavo_requests", 'state="waiting"'), 1)
            self.assertEqual(total(values, "vllm:num_requests_waiting"), 1)
            self.assertEqual(total(values, "vllm:num_requests_running"), 1)
            used = total(values, "octavo_kv_blocks", 'state="active"') / 40
            self.assertAlmostEqual(total(values, "vllm:kv_cache_usage_perc"), used, places=6)
            collect(running)
            collect(waiting)
            self.assertEqual(counters.gain("octavo_request_queue_time_seconds_count"), 2)


class Off(unittest.TestCase):
    def test_the_prefix_cache_can_be_switched_off(self):
        with Service([*FLAGS, "--no-enable-prefix-caching"]) as service:
            for _ in range(2):
                self.assertEqual(collect(service.generation.Generate(greedy_request(tokens(7, 40), 2), timeout=60))[3]
                                 .cached_tokens, 0)
            state = service.wait_idle()
            self.assertFalse(state.prefix_cache.enabled)
            self.assertEqual(state.blocks.cached, 0)
            self.assertEqual(Counters(service).gain("octavo_prefix_cache_query_tokens_total"), 0)


if __name__ == "__main__":
    unittest.main()
