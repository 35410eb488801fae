"""Speed: programs that measure SRL and a peer in the same run."""
