# Not built by the project's checks, which run where no container daemon does: tests/test_container.py runs the
# steps of the user in a fresh environment instead. docs/guides/container.md says how to use it.
FROM python:3.11.14-slim-bookworm

RUN apt-get update && apt-get install --yes --no-install-recommends git make && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 srl
COPY --chown=srl:srl . /home/srl/source

USER srl
ENV HOME=/home/srl OMP_NUM_THREADS=1 PATH=/home/srl/venv/bin:/usr/local/bin:/usr/bin:/bin
RUN python -m venv /home/srl/venv
RUN python -m pip install --quiet --no-cache-dir --constraint /home/srl/source/constraints.txt "/home/srl/source[train]"
RUN mkdir /home/srl/work
WORKDIR /home/srl/work

HEALTHCHECK --interval=5m --timeout=60s CMD srl play nim-v0 middle strong --quiet
ENTRYPOINT ["srl"]
CMD ["--help"]
