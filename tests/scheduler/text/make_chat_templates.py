#!/usr/bin/env python3
"""Writes tests/data/chat_templates.jsonl: chat templates, contexts and what Python's Jinja2 makes of them.

The environment is set up as transformers sets it up for chat templates (immutable sandbox,
trim_blocks, lstrip_blocks, loop controls, a generation tag, its own tojson, raise_exception and
strftime_now), with the clock stopped at 2023-11-14 22:13:20. Everything random has a fixed seed, so
running this again writes the same file.

Lines: {"template_name", "template"} defines a template that later lines use by name; every other line
is a case: {"name", "template" or "use", "context"?, "output" or "error"}. A case without a context
uses the one in the first line, {"default_context": ...}.

    python make_chat_templates.py            # writes the file
    python make_chat_templates.py --fuzz N   # prints N further random cases, for a larger comparison
"""
import json
import random
import re
import sys
from datetime import datetime
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

sys.path.insert(0, str(Path(__file__).parent))
from chat_template_sources import CONSTRUCTS, CONVERSATIONS, ERRORS, FAMILIES, DEFAULT_CONTEXT
from chat_template_random import random_template

DATA = Path(__file__).resolve().parents[2] / "data"
NOW = datetime(2023, 11, 14, 22, 13, 20)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
# Python objects whose text depends on the process or on Python itself.
UNPORTABLE = re.compile(r"<(generator|built-in|bound|function|method|Macro|Namespace|class|__main__|jinja2"
                        r"|dict_|reversed|list_reverse|LoopContext|TemplateD|TemplateN|Undefined)|0x[0-9a-f]{6}|range\(")


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _support(self, context, caller):
        return caller()


class TemplateNamespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attrs = dict(*args, **kwargs)
        for name in attrs:
            TemplateNamespace._check(name)
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        TemplateNamespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    env.globals["namespace"] = TemplateNamespace
    return env


ENV = environment()


def render(template, context):
    """The case's result: {"output": text} or {"error": exception}; None when it is not portable."""
    try:
        output = ENV.from_string(template).render(**{**context, **TOKENS})
    except Exception as e:  # whatever Python raises is an error for us
        return {"error": f"{type(e).__name__}: {e}"[:100]}
    if UNPORTABLE.search(output):
        return None
    try:
        output.encode()
    except UnicodeEncodeError:
        return None
    return {"output": output}


def cases():
    yield {"default_context": DEFAULT_CONTEXT}
    for i, template in enumerate(CONSTRUCTS):
        result = render(template, DEFAULT_CONTEXT)
        assert result is not None and "output" in result, (template, result)
        yield {"name": f"construct-{i}", "template": template, **result}
    for i, template in enumerate(ERRORS):
        result = render(template, DEFAULT_CONTEXT)
        assert result is not None and "error" in result, (template, result)
        yield {"name": f"error-{i}", "template": template, **result}
    smollm = (DATA / "smollm2_chat_template.jinja").read_text()
    for family, template in {"smollm2": smollm, **FAMILIES}.items():
        yield {"template_name": family, "template": template}
        for name, context in CONVERSATIONS.items():
            result = render(template, context)
            assert result is not None, (family, name)
            yield {"name": f"{family}-{name}", "use": family, "context": context, **result}
    yield from random_cases("random", 20240229, 420)


def random_cases(name, seed, count):
    rng = random.Random(seed)
    made = 0
    while made < count:
        template = random_template(rng)
        result = render(template, DEFAULT_CONTEXT)
        # Mostly what works; some of what does not.
        if result is None or len(result.get("output", "")) > 400 or ("error" in result and rng.random() < 0.75):
            continue
        yield {"name": f"{name}-{made}", "template": template, **result}
        made += 1


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--fuzz":
        for case in random_cases("fuzz", int(sys.argv[2]) * 7919, int(sys.argv[2])):
            print(json.dumps(case))
        return
    with open(DATA / "chat_templates.jsonl", "w") as f:
        for case in cases():
            f.write(json.dumps(case) + "\n")


if __name__ == "__main__":
    main()
