"""Rubrics in YAML files: shipped ones and the user's own."""

from __future__ import annotations

from pathlib import Path

from srl_agents.yaml_files import find_yaml

SHIPPED_RUBRICS = Path(__file__).parent / "rubrics"


def find_rubric(name: str) -> Path:
    """A rubric file by path, or a shipped one by name.

    Raises:
        ConfigError: the file does not exist; the message names the nearest shipped rubric.
    """
    return find_yaml("rubric", name, SHIPPED_RUBRICS)
