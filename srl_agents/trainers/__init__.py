"""One file per algorithm, on TRL's losses and optimizers. The only package that imports TRL."""

import srl_agents.engines  # noqa: F401 (sets library switches that must precede the import of TRL)
