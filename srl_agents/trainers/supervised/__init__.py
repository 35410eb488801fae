"""Learning from labelled replies: imitation and reward models."""
