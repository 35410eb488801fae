"""The leaderboard page: template, style and script, filled in by `render.page`."""
