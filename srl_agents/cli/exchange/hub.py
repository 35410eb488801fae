"""One repository of a model hub, by the hub's own client: written in one commit, read at one commit.

``HF_ENDPOINT`` names the hub, and ``HF_TOKEN`` or ``hf auth login`` give the key. No option holds a key,
since commands stay in a shell's history.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    constants,
    get_token,
    hf_hub_download,
    snapshot_download,
)
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars

from srl_agents.cli.exchange.parcel import MARK, Content, Kind, Listing, read_mark
from srl_agents.own_folders import scratch
from srl_envs.errors import ConfigError
from srl_envs.redaction import Redactor

TYPES: Mapping[Kind, str] = {"run": "model", "board": "space"}
"""A run's repository holds models; a board's is a static Space, which shows its site."""
_ID = re.compile(r"[A-Za-z0-9][\w.\-]*/[A-Za-z0-9][\w.\-]*", re.ASCII)
_MADE_BY_THE_HUB = frozenset({".gitattributes", "README.md", "index.html", "style.css"})
"""What a new repository may hold before the first push; static Spaces begin with a page."""
_LOCAL = ("localhost", "127.0.0.1", "::1")
_CONFLICT, _MOST_REASON = (409, 412), 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """Outcome of a push."""

    url: str
    """Address of the repository's page."""
    commit: str
    private: bool
    changed: bool
    """False if the repository held all of it already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A repository of SRL at one commit."""

    kind: Kind
    commit: str
    sizes: Mapping[str, int]
    """Bytes by name, as the hub has them."""


class Hub:
    """A repository.

    Args:
        repository: ``owner/name``.
        sends: it is written, which needs a key.
        quiet: show no progress; it is not shown either where no terminal reads it.

    Raises:
        ConfigError: the name is none, there is no key, or it would travel unprotected.
    """

    def __init__(self, repository: str, *, sends: bool, quiet: bool) -> None:
        if not _ID.fullmatch(repository):
            raise ConfigError(f"{repository[:100]!r} names no repository: give OWNER/NAME.")
        self.repository, self.endpoint = repository, constants.ENDPOINT
        self.key = get_token()
        if self.key is None and sends:
            raise ConfigError(
                "no key of the hub. Make one with write access on the hub's page of tokens, then `hf auth "
                "login`, or set HF_TOKEN."
            )
        place = urlsplit(self.endpoint)
        if self.key and place.scheme != "https" and place.hostname not in _LOCAL:
            raise ConfigError(
                f"HF_ENDPOINT={self.endpoint} would send your key without encryption. Use https://, or unset "
                "HF_TOKEN to read public repositories."
            )
        if quiet or not sys.stderr.isatty():
            disable_progress_bars()
        self._hide = Redactor(self.key or "").hide
        self._api = HfApi(endpoint=self.endpoint, token=self.key or False, library_name="srl")

    def send(self, kind: Kind, files: Mapping[str, Content], *, public: bool, note: str) -> Sent:
        """Replace what an earlier push wrote, in one commit.

        A new repository is private until ``public`` opens it behind the commit, so a reader sees all or
        nothing.

        Args:
            kind: of the content.
            files: name -> content, with `MARK`.
            public: let everyone read it. False leaves an existing repository as it is.
            note: the commit's message.

        Raises:
            ConfigError: the hub refuses, does not answer, or has a repository of another kind there.
        """
        type_ = TYPES[kind]
        with self._faults():
            self._api.create_repo(
                self.repository,
                repo_type=type_,
                private=True,
                exist_ok=True,
                space_sdk="static" if type_ == "space" else None,
            )
            info = self._api.repo_info(self.repository, repo_type=type_)
            before = {str(file.rfilename) for file in info.siblings or ()}
            own = self._written_before(type_, str(info.sha), before)
            gone = sorted((own | (before & _MADE_BY_THE_HUB)) - set(files) - {".gitattributes"})
            operations = [
                *(CommitOperationAdd(name, content) for name, content in files.items()),
                *(CommitOperationDelete(name, is_folder=False) for name in gone),
            ]
            commit = self._api.create_commit(
                self.repository,
                operations,
                commit_message=note,
                repo_type=type_,
                parent_commit=info.sha,
            )
            if public and info.private:
                self._api.update_repo_settings(self.repository, private=False, repo_type=type_)
        prefix = "" if type_ == "model" else f"{type_}s/"
        return Sent(
            url=f"{self.endpoint}/{prefix}{self.repository}",
            commit=str(commit.oid),
            private=bool(info.private) and not public,
            changed=str(commit.oid) != info.sha,
        )

    def find(self, revision: str | None) -> Found:
        """The repository of this name, a run's before a board's.

        Args:
            revision: a commit, branch or tag; None is the newest commit.

        Raises:
            ConfigError: the hub has none, does not answer, or it is not SRL's.
        """
        with self._faults():
            for kind, type_ in TYPES.items():
                try:
                    info = self._api.repo_info(
                        self.repository, repo_type=type_, revision=revision, files_metadata=True
                    )
                except GatedRepoError:
                    raise
                except RepositoryNotFoundError:
                    continue
                sizes = {str(file.rfilename): int(file.size or 0) for file in info.siblings or ()}
                if MARK not in sizes:
                    raise ConfigError(
                        f"{self.repository} is not a run or board of SRL: it has no {MARK}. A model of the "
                        f"hub is used by its name, as in `srl play nim-v0 {self.repository} random`."
                    )
                return Found(kind=kind, commit=str(info.sha), sizes=sizes)
        raise ConfigError(
            f"{self.endpoint} has no repository {self.repository} that "
            + (
                "this key may read."
                if self.key
                else "is public. Private ones need `hf auth login`."
            )
        )

    def listing(self, found: Found, work: Path) -> Listing:
        """The list of files of a repository.

        Args:
            found: by `find`.
            work: folder of the download.

        Raises:
            ConfigError: it is damaged, or the hub does not answer.
        """
        with self._faults():
            mark = self._mark(TYPES[found.kind], found.commit, work)
        listing = read_mark(mark, self.repository)
        if listing.kind != found.kind:
            raise ConfigError(
                f"{self.repository}: its {MARK} is of a {listing.kind}, in another place."
            )
        return listing

    def fetch(self, found: Found, names: Collection[str], work: Path) -> None:
        """Download files into a folder; those that an interrupted call left there are kept.

        Raises:
            ConfigError: the hub does not answer.
            OSError: the disk is full.
        """
        with self._faults():
            snapshot_download(
                self.repository,
                repo_type=TYPES[found.kind],
                revision=found.commit,
                local_dir=work,
                allow_patterns=sorted(names),
                endpoint=self.endpoint,
                token=self.key or False,
            )

    def _mark(self, type_: str, commit: str, work: Path) -> bytes:
        path = hf_hub_download(
            self.repository,
            MARK,
            repo_type=type_,
            revision=commit,
            local_dir=work,
            endpoint=self.endpoint,
            token=self.key or False,
        )
        return Path(path).read_bytes()

    def _written_before(self, type_: str, commit: str, before: Collection[str]) -> set[str]:
        """Files of the repository that an earlier push wrote.

        Raises:
            ConfigError: there are files that none wrote.
        """
        own: set[str] = set()
        if MARK in before:
            with scratch("mark") as work:
                mark = self._mark(type_, commit, work)
            own = {MARK, *read_mark(mark, self.repository).files}
        foreign = sorted(set(before) - own - _MADE_BY_THE_HUB)
        if foreign and MARK not in before:
            raise ConfigError(
                f"{self.repository} holds {', '.join(foreign[:3])}{' and more' * (len(foreign) > 3)}, which "
                "`srl push` did not write. Choose another name; nothing was changed."
            )
        return own

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Turn what the client raises into one line, without the key."""
        http_fault = HfHubHTTPError.__bases__[0]  # base error of the client's HTTP library
        try:
            yield
        except HfHubHTTPError as error:
            raise ConfigError(self._hide(self._refusal(error))) from None
        except (HFValidationError, ValueError, RuntimeError, http_fault, ConnectionError) as error:
            if isinstance(error, ConfigError):
                raise
            cause = error.__cause__ or error  # what a thread of the client raised
            reason = f"{type(cause).__name__}: {cause}".partition("\n")[0][:_MOST_REASON]
            raise ConfigError(
                self._hide(f"{self.repository} at {self.endpoint}: {reason}")
            ) from None

    def _refusal(self, error: HfHubHTTPError) -> str:
        status = error.response.status_code
        name = f"{self.repository} at {self.endpoint}"
        if isinstance(error, RevisionNotFoundError):
            return f"{name}: there is no such commit, branch or tag."
        if isinstance(error, GatedRepoError):
            return f"{name}: its owner admits readers one by one. Ask on its page, with your key's account."
        if status == 401:
            return f"{name}: the hub does not know this key. `hf auth login`, or set HF_TOKEN anew."
        if status == 403:
            return f"{name}: this key may not write there. Make one with write access, or use your own OWNER."
        if status in _CONFLICT:
            return f"{name}: another push was first. Nothing was changed: push again."
        lines = [line for line in (error.server_message or str(error)).splitlines() if line.strip()]
        reason = (lines or ["no reason"])[0][:_MOST_REASON]
        return f"{name}: the hub answered {status}: {reason}"
