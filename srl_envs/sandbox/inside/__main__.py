"""Start of the fork server: ``python -I -S -B inside SETTINGS``, SETTINGS being JSON."""

import importlib
import os
import sys

folder = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [os.path.dirname(folder), *(path for path in sys.path if path != folder)]
server = importlib.import_module(os.path.basename(folder) + ".server")
del sys.path[0]  # programs shall not find the modules of the trusted side
server.main(sys.argv[1])
