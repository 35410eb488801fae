"""What pages of the suite share: colours, elements, the theme's switch, charts, and how data goes in."""

from srl_agents.cli.web_page.page_files import SharedFiles, embedded_json, shared_files

__all__ = ["SharedFiles", "embedded_json", "shared_files"]
