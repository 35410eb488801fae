"""A second computation of losses and gradients, and its comparison with the trainers."""
