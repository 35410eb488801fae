"""Memory of devices and host, and tensors that leave it."""
