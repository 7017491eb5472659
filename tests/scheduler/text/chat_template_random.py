"""Random templates for make_chat_templates.py: mostly well-typed, over its default context."""

TEXTS = ["s", "empty", "padded", "csv", "html", "quotes", "lines", "digits", "real", "case", "emoji", "words[1]",
         "messages[1].content", "messages[0].content", "people[0].name", "d.a", "'x'", "' '", "''", "'é\\n'", "\"a,b\""]
INTS = ["n", "neg", "zero", "1", "2", "0", "3", "-1", "ints[0]", "people[0].age", "10"]
FLOATS = ["f", "2.5", "0.1", "-1.5", "1e3", "tiny", "huge"]
LISTS = ["ints", "words", "mixed", "people", "messages", "[]", "[1, 2, 3]", "['b', 'A']", "d.nested.x", "(1, 'a')", "tools"]
DICTS = ["d", "people[1]", "messages[0]", "{}", "{'k': 1, 'j': [2]}", "d.nested", "tools[0].function"]
OTHERS = ["nothing", "yes", "no", "missing", "d.q", "none", "true", "false", "missing2"]
TEXT_FILTERS = ["trim", "upper", "lower", "title", "capitalize", "reverse", "string", "replace('a', 'b')", "replace('l', '')",
                "indent", "indent(2, true)", "e", "trim('x ')", "replace(',', ';', 1)", "default('z')", "safe", "center(9)"]
TEXT_METHODS = ["strip()", "lstrip()", "rstrip()", "upper()", "lower()", "title()", "capitalize()", "swapcase()", "replace('l', 'L')",
                "strip('!x')", "split()[0]", "split(',')[-1]", "split(',') | join('/')", "lstrip('H')", "removeprefix('He')", "zfill(5)",
                "rsplit(',', 1)[0]", "partition(',')[2]", "splitlines() | join('|')", "ljust(4, '.')", "split('\\n') | first"]
LIST_FILTERS = ["reverse | list", "sort", "unique | list", "list", "select | list", "reject | list", "map('string') | list", "map('upper') | list",
                "select('defined') | list", "select('string') | list", "select('number') | list", "batch(2) | list", "map(attribute='name') | list",
                "selectattr('role') | list", "rejectattr('role', 'defined') | list", "sort(reverse=true)", "selectattr('age', 'gt', 26) | list"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "true", "false",
         "odd", "even", "in ints", "eq 1", "equalto('x')", "gt 1", "lower", "upper", "sameas none", "divisibleby 2", "in words", "lt(5)", "ne none"]


def text(rng, depth):
    if depth <= 0 or rng.random() < 0.2:
        return rng.choice(TEXTS)
    pick = rng.randrange(14)
    if pick == 0:
        return f"{text(rng, depth - 1)} + {text(rng, depth - 1)}"
    if pick == 1:
        return f"({anything(rng, depth - 1)} ~ {anything(rng, depth - 1)})"
    if pick in (2, 3):
        return f"({text(rng, depth - 1)} | {rng.choice(TEXT_FILTERS)})"
    if pick in (4, 5):
        return f"({text(rng, depth - 1)}).{rng.choice(TEXT_METHODS)}"
    if pick == 6:
        return f"({text(rng, depth - 1)}){cut(rng)}"
    if pick == 7:
        return f"({sequence(rng, depth - 1)} | join({rng.choice(['', chr(39) + ', ' + chr(39), text(rng, 0)])}))"
    if pick == 8:
        return f"({anything(rng, depth - 1)} | tojson{rng.choice(['', '', '(indent=2)', '(sort_keys=true)'])})"
    if pick == 9:
        return f"({text(rng, depth - 1)} if {truth(rng, depth - 1)} else {text(rng, depth - 1)})"
    if pick == 10:
        return f"({text(rng, depth - 1)} * {rng.choice(['0', '2', '-1', 'no'])})"
    if pick == 11:
        return f"('%s/%s' % ({anything(rng, depth - 1)}, {anything(rng, depth - 1)}))"
    if pick == 12:
        return f"({anything(rng, depth - 1)} | string)"
    return f"({sequence(rng, depth - 1)} | {rng.choice(['first', 'last'])} | string)"


def cut(rng):
    def bound():
        return rng.choice(["", "0", "1", "2", "-1", "-3", "5", "50", "-50"])

    pick = rng.random()
    if pick < 0.25:
        return f"[{rng.choice(['0', '1', '-1', '2', '40'])}]"
    if pick < 0.75:
        return f"[{bound()}:{bound()}]"
    return f"[{bound()}:{bound()}:{rng.choice(['1', '2', '-1', '-2', '3'])}]"


def number(rng, depth):
    if depth <= 0 or rng.random() < 0.3:
        return rng.choice(INTS + FLOATS) if rng.random() < 0.9 else rng.choice(OTHERS)
    pick = rng.randrange(8)
    if pick <= 2:
        return f"({number(rng, depth - 1)} {rng.choice(['+', '-', '*', '/', '//', '%', '**'])} {number(rng, depth - 1)})"
    if pick == 3:
        return f"({rng.choice([text, sequence, mapping])(rng, depth - 1)} | length)"
    if pick == 4:
        return f"({text(rng, depth - 1)} | {rng.choice(['int', 'float', 'wordcount', 'int(7)'])})"
    if pick == 5:
        return f"({number(rng, depth - 1)} | {rng.choice(['abs', 'round', 'round(1)', 'int', 'float', 'round(1, ' + repr('ceil') + ')'])})"
    if pick == 6:
        return f"({text(rng, depth - 1)}).{rng.choice(['find', 'count', 'rfind'])}({text(rng, 0)})"
    return f"(ints | {rng.choice(['sum', 'min', 'max', 'first', 'last'])})"


def sequence(rng, depth):
    if depth <= 0 or rng.random() < 0.3:
        return rng.choice(LISTS)
    pick = rng.randrange(9)
    if pick == 0:
        return f"[{anything(rng, depth - 1)}, {anything(rng, depth - 1)}]"
    if pick == 1:
        return f"({anything(rng, depth - 1)}, {anything(rng, depth - 1)})"
    if pick in (2, 3):
        return f"({sequence(rng, depth - 1)} | {rng.choice(LIST_FILTERS)})"
    if pick == 4:
        return f"({sequence(rng, depth - 1)}){cut(rng)}"
    if pick == 5:
        return f"({mapping(rng, depth - 1)}.{rng.choice(['keys()', 'values()', 'items()'])} | list)"
    if pick == 6:
        return f"({text(rng, depth - 1)} | list)"
    if pick == 7:
        return f"({mapping(rng, depth - 1)} | dictsort)"
    return f"(range({rng.choice(['3', '1, 4', '5, 0, -2', 'n'])}) | list)"


def mapping(rng, depth):
    if depth <= 0 or rng.random() < 0.5:
        return rng.choice(DICTS)
    key = rng.choice(["'a'", "'b'", "1", "none", "'é'", "true"])
    return f"{{{key}: {anything(rng, depth - 1)}, 'z': {anything(rng, depth - 1)}}}"


def truth(rng, depth):
    if depth <= 0 or rng.random() < 0.2:
        return rng.choice(OTHERS + ["yes", "no"])
    pick = rng.randrange(7)
    if pick == 0:
        return f"({anything(rng, depth - 1)} is {rng.choice(['', '', 'not '])}{rng.choice(TESTS)})"
    if pick == 1:
        return f"({number(rng, depth - 1)} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {number(rng, depth - 1)})"
    if pick == 2:
        return f"({text(rng, depth - 1)} {rng.choice(['in', 'not in', '==', '<'])} {text(rng, depth - 1)})"
    if pick == 3:
        return f"({anything(rng, depth - 1)} {rng.choice(['in', 'not in', '=='])} {rng.choice([sequence, mapping])(rng, depth - 1)})"
    if pick == 4:
        return f"({truth(rng, depth - 1)} {rng.choice(['and', 'or'])} {truth(rng, depth - 1)})"
    if pick == 5:
        return f"(not {truth(rng, depth - 1)})"
    return f"({text(rng, depth - 1)}).{rng.choice(['startswith', 'endswith'])}({text(rng, 0)})"


def anything(rng, depth):
    return rng.choices([text, number, sequence, mapping, truth], [4, 3, 3, 2, 2])[0](rng, depth)


def tag(rng, body):
    left, right = rng.choice(["", "", "-", "+"]), rng.choice(["", "", "-"])
    return "{%" + left + " " + body + " " + right + "%}"


def printed(rng, depth):
    return "{{" + rng.choice(["", "", "-"]) + " " + anything(rng, depth) + " " + rng.choice(["", "", "-"]) + "}}"


def data(rng):
    return rng.choice(["", " ", "\n", "  \n", "x", "a\n  ", "\t", " b ", "\n\n", "<|im_end|>", ": "])


def statement(rng, depth, in_loop):
    pick = rng.randrange(10)
    if pick <= 2 or depth <= 0:
        return printed(rng, 2 if depth > 0 else 1)
    if pick == 3:
        return tag(rng, "if " + truth(rng, 2)) + block(rng, depth - 1, in_loop) + tag(rng, "else") + block(rng, depth - 1, in_loop) + tag(rng, "endif")
    if pick in (4, 5):
        target, over = rng.choice([("v", sequence(rng, 1)), ("v", text(rng, 1)), ("k, v", mapping(rng, 0) + ".items()"), ("v", mapping(rng, 0)), ("v", "messages")])
        test = rng.choice(["", "", " if v", " if v is string", " if loop is undefined"]) if target == "v" else ""
        inner = block(rng, depth - 1, True) + rng.choice(["{{ loop.index }}", "{{ v }}", "{{ loop.last }}", "{{ loop.previtem }}", "{{ loop.revindex0 }}"])
        return tag(rng, f"for {target} in {over}{test}") + inner + tag(rng, "endfor")
    if pick == 6:
        name = rng.choice(["v", "q", "n", "s"])
        return tag(rng, f"set {name} = {anything(rng, 2)}") + "{{ " + name + " }}"
    if pick == 7:
        return tag(rng, "set q") + block(rng, depth - 1, False) + tag(rng, "endset") + "{{ q | trim }}|{{ q | length }}"
    if pick == 8 and in_loop:
        return tag(rng, "if " + truth(rng, 1)) + tag(rng, rng.choice(["break", "continue"])) + tag(rng, "endif")
    if pick == 8:
        return tag(rng, "filter " + rng.choice(["upper", "trim", "replace('a', 'o')", "indent"])) + block(rng, depth - 1, False) + tag(rng, "endfilter")
    args = rng.choice(["", "'p'", "1, z=2", "n", "z=s"])
    return tag(rng, "macro m(v, z='Z')") + block(rng, depth - 1, False) + "{{ v }}{{ z }}" + tag(rng, "endmacro") + "{{ m(" + args + ") }}"


def block(rng, depth, in_loop):
    return "".join(data(rng) + statement(rng, depth, in_loop) + data(rng) for _ in range(rng.choice([1, 1, 2])))


def random_template(rng):
    if rng.random() < 0.5:
        return printed(rng, rng.choice([1, 2, 3]))
    return block(rng, rng.choice([1, 2]), False)
