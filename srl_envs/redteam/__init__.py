"""A standing red team: attacks the games and rewards the way a policy under training would.

It uses only the suite's public interface and learns every game's grammar from the prompt, the
legal actions and the moves of bots, so it attacks games that it has never seen. What it finds is plain
data that `srl_envs.redteam.cases` checks again. `srl redteam` is its command.
"""
