"""What is measured of a run while it goes on: machine, GPU, processes."""
