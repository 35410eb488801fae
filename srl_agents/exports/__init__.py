"""Use of SRL's agents in other systems."""
