"""The vLLM side of the engine bench: its CPU build's own server, stock, all adapters named at start.

The settings are the fastest known for it on a small machine: the LoRA rank no higher than needed, threads
unbound, tcmalloc and Intel's OpenMP preloaded where they are installed. Base rows in a batch with adapter
rows would get the last slot's adapter on this build, so the bench never mixes them.
"""

import http.client
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from hotset.bench.engine_batch import Batch, BatchTime, SideSetup
from hotset.bench.peers import Installed, with_env
from hotset.core.clock import Clock
from hotset.core.errors import EngineFailedError

_BASE = "base"
_TCMALLOC = Path("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4")
_ANSWER_TIMEOUT_S = 300.0


class _Usage(msgspec.Struct):
    completion_tokens: int


class _Answer(msgspec.Struct):
    usage: _Usage


def preloads(peer: Installed) -> list[Path]:
    """Return the libraries to preload: those of the fastest known set that are on this machine."""
    return [path for path in (_TCMALLOC, peer.folder / "lib" / "libiomp5.so") if path.exists()]


def start_command(peer: Installed, setup: SideSetup, port: int) -> tuple[str, ...]:
    """Return the command that serves the base and all adapters on a loopback port."""
    num_adapters = str(len(setup.adapters))
    command = (peer.python, "-m", "vllm.entrypoints.openai.api_server", "--model", setup.base_folder)
    command += ("--served-model-name", _BASE, "--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16")
    command += ("--max-model-len", "2048", "--max-num-seqs", str(setup.num_sequences_max), "--enable-lora")
    command += ("--max-loras", num_adapters, "--max-cpu-loras", num_adapters)
    command += ("--max-lora-rank", str(setup.rank_max), "--lora-modules")
    command += tuple(f"{adapter.name}={adapter.folder}" for adapter in setup.adapters)
    env = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(setup.num_threads),
        "VLLM_LOGGING_LEVEL": "WARNING",
    }
    if found := preloads(peer):
        env["LD_PRELOAD"] = ":".join(str(path.resolve()) for path in found)
    return with_env(env, command)


class VllmClient:
    """Sends batches to a vLLM server, each row on a connection and thread of its own."""

    def __init__(self, port: int, clock: Clock) -> None:
        self._port = port
        self._clock = clock

    def answer(self, batch: Batch) -> BatchTime:
        """Run one batch.

        Raises:
            EngineFailedError: a row was not answered with as many tokens as asked for.
        """
        bodies = [
            msgspec.json.encode(
                {
                    "model": name or _BASE,
                    "prompt": prompt,
                    "max_tokens": batch.new_tokens,
                    "ignore_eos": True,
                    "temperature": 0,
                }
            )
            for prompt, name in zip(batch.prompts, batch.adapters, strict=True)
        ]
        with ThreadPoolExecutor(max_workers=len(bodies)) as pool:
            begun_at = self._clock.monotonic_s()
            counts = list(pool.map(self._complete, bodies))
            seconds = self._clock.monotonic_s() - begun_at
        if any(count != batch.new_tokens for count in counts):
            raise EngineFailedError(f"vLLM generated {counts} tokens, {batch.new_tokens} a row were asked for")
        return BatchTime(seconds=seconds, num_tokens=sum(counts))

    def _complete(self, body: bytes) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_ANSWER_TIMEOUT_S)
        try:
            connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise EngineFailedError(f"vLLM answered {answer.status}: {text[:300]!r}")
        return msgspec.json.decode(text, type=_Answer).usage.completion_tokens
