"""Start of the fork server: ``python -s -S -B inside N``; descriptor N holds the settings as JSON."""

import importlib
import os
import sys

folder = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [os.path.dirname(folder), *(path for path in sys.path if path != folder)]
server = importlib.import_module(os.path.basename(folder) + ".server")
del sys.path[0]  # programs shall not find the modules of the trusted side
server.main(int(sys.argv[1]))
