"""Shared parts of the suite's web pages: colours, elements, the theme's switch, charts and embedded data."""

from srl_agents.cli.pages.shared.page_files import SharedFiles, embedded_json, shared_files

__all__ = ["SharedFiles", "embedded_json", "shared_files"]
