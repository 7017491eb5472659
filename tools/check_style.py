"""Checks what clang-format does not: guards, sizes, leftovers, and words that do not belong.

Prints each violation and exits 1 when there is one.
"""
import pathlib
import re
import subprocess
import sys

MAX_LINES, MAX_TEST_LINES, MAX_COLUMNS = 400, 600, 100
SOURCE = (".h", ".cc", ".cu", ".cuh")
# Marks of unfinished work, spelled apart so that this file does not find itself.
LEFTOVERS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK"]) + r")\b")
FILE_NAMES = re.compile(r"(^|_)(utils?|helpers?|misc)(_|$)")


def tracked(root):
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root,
                           capture_output=True, text=True, check=True).stdout.splitlines()
    return [root / name for name in names if (root / name).is_file()]


def guard_of(relative):
    return "OCTAVO_" + re.sub(r"[^A-Z0-9]", "_", relative.as_posix().upper()) + "_"


def source_violations(relative, text):
    lines = text.splitlines()
    is_test = relative.parts[0] == "tests"
    limit = MAX_TEST_LINES if is_test else MAX_LINES
    if len(lines) > limit:
        yield 1, f"{len(lines)} lines; the limit is {limit}: split by verb"
    if relative.suffix in (".h", ".cuh"):
        guard = guard_of(relative)
        if f"#ifndef {guard}" not in text or f"#define {guard}" not in text:
            yield 1, f"the include guard must be {guard}"
    if FILE_NAMES.search(relative.stem):
        yield 1, "a file is named by what it holds, not utils, helpers or misc"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS and "http" not in line:
            yield number, f"{len(line)} columns; the limit is {MAX_COLUMNS}"
        if LEFTOVERS.search(line):
            yield number, "unfinished work: finish it or file an issue"
        if "using namespace" in line and "literals" not in line:
            yield number, "using namespace"
    if not is_test and "std::shared_ptr" in text and relative.parts[:2] in (("scheduler", "core"), ("scheduler", "kv")):
        yield 1, "the core owns by value or unique_ptr"


def text_violations(text):
    for number, line in enumerate(text.splitlines(), 1):
        if line != line.rstrip():
            yield number, "trailing blanks"
        if "\t" in line:
            yield number, "a tab"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    found = 0
    for path in tracked(root):
        relative = path.relative_to(root)
        if relative.parts[:2] == ("tests", "data") or relative.parts[:3] == ("tests", "fuzz", "seeds"):
            continue
        if path.suffix not in SOURCE + (".py", ".sh", ".md", ".proto", ".cmake", ".txt"):
            continue
        text = path.read_text(encoding="utf-8")
        problems = list(text_violations(text)) if path.suffix != ".md" else []
        if path.suffix in SOURCE:
            problems += source_violations(relative, text)
        for number, why in problems:
            print(f"{relative}:{number}: {why}")
            found += 1
    print(f"{found} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
