"""A server of vLLM's protocol with a real model behind it, so that its log-probabilities are true.

    python -m tests.vllm_fake --port 8000 --noise 0.15

serves ``tiny`` from a process of its own, with faults: noise on its weights, a wait before its lists of
models, no token endpoints, pages in place of JSON, an end while a version is loaded.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources.catalog import TINY
from tests.vllm_stub import VLLMStub, vllm_stub

_LOAD = "/v1/load_lora_adapter"


def noisy(base: BaseModel, share: float, seed: int = 0) -> BaseModel:
    """The base with normal noise on all weights, of this share of each tensor's own deviation."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in base.frozen_parameters:
            weight.add_(share * float(weight.std()) * torch.randn(weight.shape, generator=draw))
    return base


@dataclass
class VLLMFake(VLLMStub):
    """Samples with a base of its own, one request at a time."""

    base: BaseModel = field(default_factory=lambda: BaseModel.load(TINY, lora_rank=4))
    ends: bool = True
    """Stop texts end replies, as the base's tokenizer reads them."""
    tokens: bool = True
    """It has token endpoints."""
    lists_after_s: float = 0.0
    """Before each list of its models."""
    page: bool = False
    """It answers everything with a page."""
    loads: list[str] = field(default_factory=list)
    dies_at: int | None = None
    """It dies in this load of an adapter, counted from 1."""
    exits: bool = False
    """Dying ends the process."""
    swaps: bool = False
    """Every adapter plays the one that was loaded before it."""

    def answer(self, path: str, request: Any) -> tuple[int, Any]:
        """See `VLLMStub`."""
        if path == "/v1/models":
            time.sleep(self.lists_after_s)
        if self.page:
            return (200 if path == "/v1/models" else 404), "<html><body>Hello</body></html>"
        if path.startswith("/inference") and not self.tokens:
            return 404, {"detail": "Not Found"}
        if request == {}:  # of a look at its paths
            return 422, {"detail": "Field required"}
        if path == _LOAD:
            self.loads.append(request["lora_name"])
            if len(self.loads) == self.dies_at:
                self._die()
                return 503, {}
            with self._lock:
                weights = load_file(Path(request["lora_path"]) / "adapter_model.safetensors")
                if self.swaps and self.adapters:
                    weights = self.base.tensors_of(_own(next(reversed(self.adapters))))
                self.base.freeze(_own(request["lora_name"]), weights)
        if path == "/v1/unload_lora_adapter" and request["lora_name"] in self.adapters:
            with self._lock:
                self.base.forget(_own(request["lora_name"]))
        return super().answer(path, request)

    def restart(self) -> None:
        """Live again, without adapters."""
        for name in self.adapters:
            self.base.forget(_own(name))
        self.adapters.clear()
        self.dead = False

    def generate(self, request: dict[str, Any]) -> tuple[int, Any]:
        """A reply of the model."""
        name = request["model"]
        if name != "base" and name not in self.adapters:
            return 404, {"error": {"message": f"The model `{name}` does not exist."}}
        prompt, wanted = request["token_ids"], request["sampling_params"]
        if max(prompt) >= int(self.base.model.config.vocab_size):
            return 400, {"error": {"message": "Token id is out of vocabulary"}}
        with self._lock, self.base.through(None if name == "base" else _own(name)):
            answer = self._written(prompt, wanted)
            if "prompt_logprobs" in wanted:
                answer["prompt_logprobs"] = self._scored(prompt)
        return 200, {"model": name, **answer}

    def _written(self, prompt: list[int], wanted: dict[str, Any]) -> dict[str, Any]:
        ids, content, finish = list(prompt), [], "length"
        draw = torch.Generator().manual_seed(wanted.get("seed", 0))
        for _ in range(wanted["max_tokens"]):
            logprobs = self._logits(ids)[-1].log_softmax(-1)
            if wanted["temperature"]:
                logprobs = (self._logits(ids)[-1] / wanted["temperature"]).log_softmax(-1)
                token = int(torch.multinomial(logprobs.exp(), 1, generator=draw))
            else:
                token = int(logprobs.argmax())
            ids.append(token)
            content.append({"token_id": token, "logprob": float(logprobs[token])})
            text = self.base.decode(ids[len(prompt) :])
            if token in self.base.eos_token_ids or (
                self.ends and any(stop in text for stop in wanted.get("stop", ()))
            ):
                finish = "stop"
                break
        choice = {
            "finish_reason": finish,
            "token_ids": ids[len(prompt) :],
            "logprobs": {"content": content},
        }
        return {"choices": [choice], "usage": {"prompt_tokens": len(prompt)}}

    def _scored(self, prompt: list[int]) -> list[Any]:
        found = self._logits(prompt)[:-1].log_softmax(-1)
        scores = [
            {str(t): {"logprob": float(row[t])}} for t, row in zip(prompt[1:], found, strict=True)
        ]
        return [None, *scores]

    @torch.no_grad()
    def _logits(self, ids: list[int]) -> torch.Tensor:
        self.base.model.eval()
        found: torch.Tensor = self.base.model.get_base_model()(input_ids=torch.tensor([ids])).logits
        return found[0].float()

    def _die(self) -> None:
        if self.exits:
            os.kill(os.getpid(), signal.SIGKILL)
        self.dead = True


def _own(name: str) -> str:
    """Adapters of ours have no dot."""
    return "served-" + name.replace(".", "-")


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--lists-after-s", type=float, default=0.0)
    parser.add_argument("--dies-at", type=int)
    parser.add_argument("--no-tokens", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--name", default="base")
    options = parser.parse_args()
    base = BaseModel.load(TINY, lora_rank=4)
    fake = VLLMFake(
        base=noisy(base, options.noise) if options.noise else base,
        lists_after_s=options.lists_after_s, dies_at=options.dies_at, tokens=not options.no_tokens,
        page=options.page, name=options.name, exits=True,
    )  # fmt: skip
    with vllm_stub(fake, options.port):
        print(fake.url, flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
