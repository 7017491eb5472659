"""Starts real octavo processes for a test and talks to them over gRPC.

The client side knows nothing but the .proto files: stubs are generated from them at import.
"""
import contextlib
import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import grpc
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("OCTAVO_BIN", ROOT / "build/release/bin"))
MODEL = pathlib.Path(os.environ.get("OCTAVO_MODEL", ROOT / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
REFERENCE = ROOT / "tests/data/reference"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30


def _generate_stubs():
    folder = tempfile.TemporaryDirectory(prefix="octavo-stubs-")
    names = ["octavo/v1/generation.proto", "octavo/v1/admin.proto", "grpc/health/v1/health.proto",
             "google/rpc/status.proto", "google/rpc/error_details.proto"]
    from importlib import resources
    include = str(resources.files("grpc_tools") / "_proto")
    code = protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"-I{include}", f"--python_out={folder.name}",
                        f"--grpc_python_out={folder.name}", *names])
    if code != 0:
        raise RuntimeError(f"protoc ended with {code}")
    # `grpc` and `google` are packages already: their generated parts are joined to them.
    sys.path.insert(0, folder.name)
    import google
    google.__path__.append(folder.name + "/google")
    grpc.__path__.append(folder.name + "/grpc")
    return folder


_STUBS = _generate_stubs()
generation = importlib.import_module("octavo.v1.generation_pb2")
generation_grpc = importlib.import_module("octavo.v1.generation_pb2_grpc")
admin = importlib.import_module("octavo.v1.admin_pb2")
admin_grpc = importlib.import_module("octavo.v1.admin_pb2_grpc")
health = importlib.import_module("grpc.health.v1.health_pb2")
health_grpc = importlib.import_module("grpc.health.v1.health_pb2_grpc")
rpc_status = importlib.import_module("google.rpc.status_pb2")
error_details = importlib.import_module("google.rpc.error_details_pb2")


def greedy_cases():
    if not MODEL.exists():
        raise RuntimeError(f"{MODEL} is missing: run tools/fetch_model.sh")
    with open(REFERENCE / "greedy.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def details(error):
    """The google.rpc details of an RpcError, by message name."""
    found = {}
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for item in rpc_status.Status.FromString(value).details:
            name = item.type_url.rsplit(".", 1)[-1]
            message = getattr(error_details, name)()
            item.Unpack(message)
            found[name] = message
    return found


class Process:
    """A child with a log file; ended by SIGTERM."""

    def __init__(self, folder, name, arguments):
        self.name = name
        self.log_path = pathlib.Path(folder) / f"{name}.log"
        with open(self.log_path, "ab") as log:
            self.child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def kill(self):
        self.child.kill()
        self.child.wait()

    def stop(self, timeout=STOP_TIMEOUT_S):
        """Ends it as an operator would and returns the exit status."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end within {timeout} s of SIGTERM:\n{self.log()}")


def read_port_file(path, process, timeout=START_TIMEOUT_S):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if process.child.poll() is not None:
            raise AssertionError(f"{process.name} ended with {process.child.returncode}:\n{process.log()}")
        if path.exists() and path.stat().st_size > 0:
            return dict(line.split("=", 1) for line in path.read_text().split())
        time.sleep(0.02)
    raise AssertionError(f"{process.name} wrote no port file:\n{process.log()}")


class Service:
    """One scheduler and one worker, or `ranks` of them that share the model. Use as a context manager:
    leaving it ends all and checks that they ended cleanly and that no block was left held."""

    def __init__(self, scheduler=(), worker=(), ready=True, start_worker=True, model=MODEL, ranks=1,
                 worker_program=BIN / "octavo-worker"):
        self.model, self.worker_program = model, worker_program
        self.scheduler_flags, self.worker_flags = list(scheduler), list(worker)
        self.ready, self.with_worker = ready, start_worker
        self.folder = tempfile.TemporaryDirectory(prefix="octavo-test-")
        self.path = pathlib.Path(self.folder.name)
        self.scheduler = None
        self.workers, self.worker_addresses = [None] * ranks, [None] * ranks

    @property
    def worker(self):
        return self.workers[0]

    @property
    def worker_address(self):
        return self.worker_addresses[0]

    @worker_address.setter
    def worker_address(self, address):
        self.worker_addresses[0] = address

    def start_worker(self, address="127.0.0.1:0", rank=0):
        ranks = len(self.workers)
        name = "worker" if ranks == 1 else f"worker-{rank}"
        place = [] if ranks == 1 else ["--tensor-parallel-size", str(ranks), "--tensor-parallel-rank", str(rank)]
        port_file = self.path / f"{name}.port"
        port_file.unlink(missing_ok=True)
        self.workers[rank] = Process(self.path, name, [
            self.worker_program, "--model", self.model, "--listen", address, "--port-file", port_file,
            *place, *self.worker_flags])
        self.worker_addresses[rank] = read_port_file(port_file, self.workers[rank])["grpc"]

    def start_scheduler(self):
        port_file = self.path / "scheduler.port"
        port_file.unlink(missing_ok=True)
        self.scheduler = Process(self.path, "scheduler", [
            BIN / "octavo-scheduler", "--model", self.model, "--workers", ",".join(self.worker_addresses),
            "--port", "0", "--metrics-port", "0", "--port-file", port_file, *self.scheduler_flags])
        ports = read_port_file(port_file, self.scheduler)
        self.target, self.metrics = ports["grpc"], ports["metrics"]
        self.channel = grpc.insecure_channel(self.target)
        self.generation = generation_grpc.GenerationStub(self.channel)
        self.admin = admin_grpc.AdminStub(self.channel)
        self.health = health_grpc.HealthStub(self.channel)

    def state(self):
        return self.admin.GetState(admin.GetStateRequest(), timeout=5)

    def wait_state(self, wanted, timeout=START_TIMEOUT_S):
        end = time.monotonic() + timeout
        state = None
        while time.monotonic() < end:
            with contextlib.suppress(grpc.RpcError):
                state = self.state()
                if state.state == wanted:
                    return state
            time.sleep(0.02)
        raise AssertionError(f"state is {state and state.state}, wanted {wanted}:\n{self.scheduler.log()}")

    def wait_idle(self, timeout=30):
        """Waits until nothing runs and returns the state; all blocks must then be lendable."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            state = self.state()
            if state.running == 0 and state.waiting == 0 and state.blocks.active == 0:
                return state
            time.sleep(0.02)
        raise AssertionError(f"still busy:\n{state}")

    def __enter__(self):
        try:
            if self.with_worker:
                for rank in range(len(self.workers)):
                    self.start_worker(rank=rank)
            self.start_scheduler()
            if self.ready:
                self.wait_state(admin.ENGINE_STATE_READY)
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, trace):
        clean = kind is None
        try:
            if clean and self.scheduler.child.poll() is None and self.ready:
                state = self.wait_idle()
                assert state.blocks.free + state.blocks.cached == state.blocks.total, state.blocks
            for process in (self.scheduler, *self.workers):
                if process is None:
                    continue
                if not clean:
                    sys.stderr.write(f"--- {process.name}\n{process.log()[-4000:]}\n")
                    if process.child.poll() is None:
                        process.kill()
                    continue
                if process.child.returncode is None:
                    assert process.stop() == 0, f"{process.name}:\n{process.log()}"
        finally:
            for process in (self.scheduler, *self.workers):
                if process is not None and process.child.poll() is None:
                    process.kill()
            if self.scheduler is not None and hasattr(self, "channel"):
                self.channel.close()
            self.folder.cleanup()


def collect(stream):
    """All of one choice: (token ids, text, finish reason, usage, logprobs)."""
    ids, text, reason, usage, logprobs = [], "", None, None, []
    for message in stream:
        ids.extend(message.token_ids)
        text += message.text
        logprobs.extend(message.logprobs)
        if message.finish_reason:
            reason, usage = message.finish_reason, message.usage
    return ids, text, reason, usage, logprobs


def greedy_request(ids, max_tokens, **fields):
    request = generation.GenerateRequest(token_ids=generation.TokenIds(ids=ids), max_tokens=max_tokens,
                                         ignore_eos=True, **fields)
    request.sampling.temperature = 0
    return request
