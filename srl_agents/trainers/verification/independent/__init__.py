"""Losses and gradients from the papers' equations: plain transformers, no TRL, no PEFT, no trainer."""
