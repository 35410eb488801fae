"""Packages for a game, a reward or a coordination kind of one's own: `srl new`."""
