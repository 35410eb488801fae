"""Where models come from: names, the hub, wheels, and models made on this machine."""
