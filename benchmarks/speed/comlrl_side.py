"""The peer's side of `benchmarks.speed.magrpo`, for an environment of its own; SRL is not imported.

It reads cells as JSON lines and answers each with seconds and peak memory; see `magrpo`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

AGENTS = 2


def reset_peak() -> None:
    """Let the kernel's record of the process's largest memory begin anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mib() -> float:
    """Largest resident memory since `reset_peak`."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def joint_reward(one: list[str], other: list[str]) -> list[float]:
    """Share of the first reply's characters that the second one has, too."""
    return [len(set(a) & set(b)) / max(1, len(set(a))) for a, b in zip(one, other, strict=True)]


def measure(model: str, cell: dict[str, Any], whole: bool) -> dict[str, float]:
    """CPU seconds of the measured updates of one cell, generation included, and peak MiB."""
    import torch
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(model)
    agents = []
    for _ in range(AGENTS):
        agent = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        if not whole:
            from peft import LoraConfig, get_peft_model

            shape = LoraConfig(
                r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"
            )
            agent = get_peft_model(agent, shape)
        agent.generation_config.eos_token_id = None
        agents.append(agent)
    prompts = [{"prompt": text} for text in cell["prompts"]]
    per_update = len(prompts)
    trainer = MAGRPOTrainer(
        agents=agents,
        num_agents=AGENTS,
        tokenizer=tokenizer,
        reward_func=joint_reward,
        formatters=[lambda item: item["prompt"]] * AGENTS,
        train_dataset=Dataset.from_list(prompts),
        wandb_config=None,
        args=MAGRPOConfig(
            num_train_epochs=1,
            num_turns=1,
            num_generations=cell["group"],
            max_new_tokens=cell["reply"],
            temperature=1.0,
            top_p=1.0,
            top_k=None,
            eval_interval=0,
            rollout_buffer_size=per_update,
            train_batch_size=per_update,
            agent_devices="cpu",
        ),
    )
    trainer.verbose = False
    spent = {
        "generation": timed(trainer, "_generate_completions"),
        "gradients": timed(trainer, "_update_from_samples"),
    }
    reset_peak()
    trainer.train()  # warms up
    for times in spent.values():
        times.clear()
    trainer.train_dataset = Dataset.from_list(prompts * cell["updates"])
    begun = time.process_time()
    trainer.train()
    seconds = time.process_time() - begun
    parts = {part: sum(times) for part, times in spent.items()}
    rest = {"the rest": seconds - sum(parts.values())}
    return {"seconds": seconds, "peak_mib": peak_mib(), **parts, **rest}


def timed(trainer: Any, name: str) -> list[float]:
    """CPU seconds of each call of a method, from now on; steps of the optimizer are part of its gradients."""
    method, times = getattr(trainer, name), []

    def measured(*args: Any, **kwargs: Any) -> Any:
        begun = time.process_time()
        try:
            return method(*args, **kwargs)
        finally:
            times.append(time.process_time() - begun)

    setattr(trainer, name, measured)
    return times


def main() -> None:
    """``python comlrl_side.py MODEL lora|whole``; one JSON line for each line."""
    os.environ["WANDB_MODE"] = "disabled"
    import torch

    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print goes elsewhere
    for line in sys.stdin:
        found = measure(sys.argv[1], json.loads(line), sys.argv[2] == "whole")
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
