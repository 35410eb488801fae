"""Word data shared by the families: packaged with its licences, read on first use.

`README.md` beside this file names the source of every list. Nothing here draws random numbers;
every function returns the same object at every call, so treat it as read-only.
"""

from srl_envs.lexicon.loading import associations, common_words, undercover_pairs

__all__ = ["associations", "common_words", "undercover_pairs"]
