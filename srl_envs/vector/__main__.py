"""``python -m srl_envs.vector DESCRIPTOR``: a worker process; started by `WorkerProcess` only."""

import sys

from srl_envs.vector.worker import main

sys.exit(main(int(sys.argv[1])))
