"""The leaderboard site: its page, scripts and styles, and `write.write_site`, which puts them out."""
