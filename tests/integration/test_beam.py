"""Beam searches equal the reference, whatever is shared, found or taken away on the way."""
import concurrent.futures
import json
import pathlib
import subprocess
import tempfile
import unittest

import grpc
from service import BIN, REFERENCE, Service, details, generation

FLOAT32 = ["--kv-cache-dtype", "float32", "--max-model-len", "1024"]
SCORE_TOLERANCE = 1e-3
EARLY = {False: generation.EARLY_STOPPING_FALSE, True: generation.EARLY_STOPPING_TRUE,
         "never": generation.EARLY_STOPPING_NEVER}


def beam_cases():
    with open(REFERENCE / "beam.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def beam_request(case, **fields):
    request = generation.GenerateRequest(token_ids=generation.TokenIds(ids=case["prompt_ids"]),
                                         max_tokens=case["max_new_tokens"], **fields)
    request.beam_search.width = case["num_beams"]
    request.beam_search.length_penalty = case["length_penalty"]
    request.beam_search.early_stopping = EARLY[case["early_stopping"]]
    return request


def outputs_of(stream):
    """[(ids, text, finish reason, score, usage)] by choice."""
    found = {}
    for message in stream:
        output = found.setdefault(message.index, [[], "", None, None, None])
        output[0].extend(message.token_ids)
        output[1] += message.text
        if message.finish_reason:
            output[2:] = message.finish_reason, message.score, message.usage
    return [tuple(found[index]) for index in sorted(found)]


def search_all(service, cases, **fields):
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        return list(pool.map(
            lambda case: outputs_of(service.generation.Generate(beam_request(case, **fields), timeout=600)), cases))


class Beam(unittest.TestCase):
    def check(self, case, outputs):
        self.assertEqual(len(outputs), case["num_beams"], case["name"])
        if case["near_tie"]:  # another correct program may decide otherwise
            return
        for wanted, (ids, text, reason, score, _) in zip(case["sequences"], outputs):
            self.assertEqual(ids, wanted["ids"], case["name"])
            # A negative length penalty multiplies the sum, and what float32 makes of it.
            scale = max(1, len(ids) ** -case["length_penalty"])
            self.assertAlmostEqual(score, wanted["score"], delta=SCORE_TOLERANCE * scale, msg=case["name"])
            ended = wanted["ids"][-1] == 2
            self.assertEqual(reason, generation.FINISH_REASON_STOP if ended else generation.FINISH_REASON_LENGTH)
            self.assertTrue(ended or text)

    def test_every_search_gives_the_reference_outputs(self):
        cases = beam_cases()
        with Service(FLOAT32, ["--dtype", "float32"]) as service:
            with self.subTest("all at once"):
                found = search_all(service, cases)
                for case, outputs in zip(cases, found):
                    self.check(case, outputs)
                near = sum(ids == wanted["ids"] for case, outputs in zip(cases, found) if case["near_tie"]
                           for wanted, (ids, *_) in zip(case["sequences"], outputs))
                print(f"near ties: {near} outputs are the reference's")
            with self.subTest("one by one, prompts found in the cache"):
                again = [search_all(service, [case])[0] for case in cases[:8]]
                self.assertTrue(any(outputs[0][4].cached_tokens > 0 for outputs in again))
                for case, outputs in zip(cases, again):
                    self.check(case, outputs)
            with self.subTest("usage"):
                for outputs in found:
                    for ids, _, _, _, usage in outputs:
                        self.assertEqual(usage.generated_tokens, len(ids))
            with self.subTest("fewer outputs than beams"):
                request = beam_request(cases[4])
                request.sampling.n = 2
                outputs = outputs_of(service.generation.Generate(request, timeout=60))
                self.assertEqual([output[0] for output in outputs],
                                 [wanted["ids"] for wanted in cases[4]["sequences"][:2]])

    def test_without_the_prefix_cache_and_in_a_small_pool(self):
        cases = [case for case in beam_cases() if not case["near_tie"]]
        with Service([*FLOAT32, "--no-enable-prefix-caching", "--num-gpu-blocks-override", "70"], ["--dtype", "float32"]) as service:
            for case, outputs in zip(cases, search_all(service, cases)):
                self.check(case, outputs)
                self.assertEqual(outputs[0][4].cached_tokens, 0)
            self.assertGreater(service.state().preemptions, 0)

    def test_batch_prints_outputs_best_first_and_says_what_is_refused(self):
        case = next(case for case in beam_cases() if case["name"] == "b4-chat-sum-never")
        fields = {"prompt_token_ids": case["prompt_ids"], "max_tokens": case["max_new_tokens"], "use_beam_search": True,
                  "length_penalty": case["length_penalty"], "early_stopping": case["early_stopping"]}
        lines = [{"id": "good", "beam_width": 4, **fields}, {"id": "wide", "beam_width": 33, **fields},
                 {"id": "warm", "beam_width": 4, "temperature": 0.5, **fields},
                 {"id": "many", "beam_width": 4, "n": 5, **fields},
                 {"id": "half", "prompt": "x", "beam_width": 4}]
        with Service(FLOAT32, ["--dtype", "float32"]) as service, tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "in.jsonl"
            source.write_text("".join(json.dumps(line) + "\n" for line in lines))
            done = subprocess.run([BIN / "octavo", "batch", "--target", service.target, "--input", source],
                                  capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
            outputs = answers["good"]["outputs"]
            self.assertEqual([output["token_ids"] for output in outputs], [s["ids"] for s in case["sequences"]])
            for output, wanted in zip(outputs, case["sequences"]):
                self.assertAlmostEqual(output["score"], wanted["score"], delta=SCORE_TOLERANCE)
            for name, parts in {"wide": ("33", "32"), "warm": ("temperature", "0.5"), "many": ("n", "5", "4"),
                                "half": ("beam_width", "use_beam_search")}.items():
                for part in parts:
                    self.assertIn(part, answers[name]["error"]["message"], name)
            with self.assertRaises(grpc.RpcError) as raised:
                list(service.generation.Generate(beam_request({**case, "num_beams": 33}), timeout=60))
            self.assertEqual(details(raised.exception)["BadRequest"].field_violations[0].field, "beam_search.width")


if __name__ == "__main__":
    unittest.main()
