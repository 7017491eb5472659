"""What the benchmarks of served systems share."""
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))


def run(*arguments):
    """The JSON object that a command prints."""
    return json.loads(subprocess.run([str(item) for item in arguments], check=True, capture_output=True, text=True).stdout)


def spread(values, digits=1):
    """min / median / max"""
    return f"{min(values):.{digits}f} / {statistics.median(values):.{digits}f} / {max(values):.{digits}f}"
