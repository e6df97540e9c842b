"""A federation whose finished rounds are on disk, so that a study can go on after a crash.

The study itself is run again from its start: what it asks follows from the replies so far, so
rounds that are on disk are answered from there, and the first that is not goes to the centers.
The result is that of a run without the crash, to the last bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedcox.engines.codec.replies import decode_reply, encode_reply
from fedcox.engines.codec.tree import Tree, from_bytes, to_bytes
from fedcox.errors import MessageError
from fedcox.federation.ledger import Ledger, LedgerRow
from fedcox.federation.query import AbstractFederation, AbstractQuery, Federation
from fedcox.files.writing import owners_folder, remove_leftovers, whole_file

_VERSION = 2
_SEAL = sha256().digest_size
#: What a round holds at least, and of which type.
_PARTS = {
    **dict.fromkeys(("centers", "left", "replies", "each"), list),
    **{"asked": bytes, "ledger": str},
}


class Checkpointed(AbstractFederation):
    """The same federation, with every round that was answered kept in `folder`.

    A kept round is used where the same centers are asked the same questions about the same
    patients, which `marks` tell apart: a center with other patients has another one. From the
    first other round on, what was kept is deleted: the study took another way.

    A round is written to the disk while the centers work on the next one, which is not
    finished before that: at most one finished round has to be asked again after a crash. Used
    in a `with` statement, after which the last one is on the disk too.

    A study that `goes_on` without a center that is lost, since its replies under noise are
    paid for once, is not begun anew: what was kept is used whoever is there now, and `names`
    are those of the round that is replayed. There every round is on the disk before the study
    goes on from it: its noise is paid for.
    """

    def __init__(
        self,
        federation: Federation,
        folder: Path,
        columns: int,
        marks: Mapping[str, str] | None = None,
        *,
        goes_on: bool = False,
    ) -> None:
        self._federation, self._folder, self._columns = federation, folder, columns
        self._marks, self._goes_on = marks or {}, goes_on
        self._asked = 0
        self._live = False
        self._writer = ThreadPoolExecutor(max_workers=1)
        self._writing: Future[None] | None = None
        owners_folder(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.shutdown()
        self._written()

    @property
    def names(self) -> tuple[str, ...]:
        if self._live or not self._goes_on:
            return self._federation.names
        following = _record(self._file(self._asked + 1))
        if following is not None:
            return tuple(name for name, _ in following["centers"])
        last = _record(self._file(self._asked))
        return self._federation.names if last is None else tuple(last["left"])

    @property
    def shows_centers(self) -> bool:
        return self._federation.shows_centers

    @property
    def ledger(self) -> Ledger:
        return self._federation.ledger

    def ask_together(
        self,
        queries: Sequence[AbstractQuery[Any]],
        each: Sequence[AbstractQuery[Any]] = (),
    ) -> list[Any]:
        self._asked += 1
        kept = None if self._live else self._kept(queries, each)
        if kept is not None:
            return kept
        if not self._live:
            self._live = True
            self._forget_from(self._asked)
        begun, mark = self.names, self.ledger.mark()
        try:
            answers = self._federation.ask_together(queries, each)
        finally:
            self._written()
        if begun == self.names or self._goes_on:
            self._keep(queries, each, begun, answers, self.ledger.since(mark))
        else:  # a center was lost: the study begins anew among the others
            self._forget_from(1)
            self._asked = 0
        return answers

    def _keep(
        self,
        queries: Sequence[AbstractQuery[Any]],
        each: Sequence[AbstractQuery[Any]],
        centers: Sequence[str],
        answers: Sequence[Any],
        rows: Sequence[LedgerRow],
    ) -> None:
        combined = answers[: len(queries)]
        tree: dict[str, Tree] = {
            "version": _VERSION,
            "fedcox": _own_version(),
            "asked": _digest(queries, each),
            "centers": self._marked(centers),
            "left": list(self.names),
            "replies": [encode_reply(q, a) for q, a in zip(queries, combined, strict=True)],
            "each": [
                {name: encode_reply(query, reply) for name, reply in by_center.items()}
                for query, by_center in zip(each, answers[len(queries) :], strict=True)
            ],
            "ledger": json.dumps([*rows]),
        }
        content = to_bytes(tree)
        self._writing = self._writer.submit(
            _write, self._file(self._asked), content + sha256(content).digest()
        )
        if self._goes_on:
            self._written()

    def _written(self) -> None:
        """Wait until what was finished is on the disk; a disk that is full is told here."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()

    def _kept(
        self, queries: Sequence[AbstractQuery[Any]], each: Sequence[AbstractQuery[Any]]
    ) -> list[Any] | None:
        """The replies of this round as they are on disk, if it is the same round."""
        tree = _record(self._file(self._asked))
        if tree is None or tree["asked"] != _digest(queries, each):
            return None
        if not self._goes_on and tree["centers"] != self._marked(self.names):
            return None
        try:
            return self._taken(tree, queries, each)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise _unusable(self._file(self._asked)) from error

    def _taken(
        self,
        tree: dict[str, Any],
        queries: Sequence[AbstractQuery[Any]],
        each: Sequence[AbstractQuery[Any]],
    ) -> list[Any]:
        """The replies that the file of a round holds."""
        replies = [
            decode_reply(query, reply, self._columns)
            for query, reply in zip(queries, tree["replies"], strict=True)
        ]
        by_center = [
            {name: decode_reply(query, reply, self._columns) for name, reply in parts.items()}
            for query, parts in zip(each, tree["each"], strict=True)
        ]
        self.ledger.take_over([LedgerRow(*row) for row in json.loads(tree["ledger"])])
        return [*replies, *by_center]

    def _marked(self, centers: Sequence[str]) -> list[Tree]:
        """Who is asked, and about which patients."""
        return [[name, self._marks.get(name, "")] for name in centers]

    def _forget_from(self, number: int) -> None:
        for file in sorted(self._folder.glob("round-*.bin")):
            if file >= self._file(number):
                file.unlink()

    def _file(self, number: int) -> Path:
        return self._folder / f"round-{number:06d}.bin"


def last_centers(folder: Path) -> dict[str, str] | None:
    """Who answered the last round that is on disk, with their marks; None where none is."""
    files = sorted(folder.glob("round-*.bin"))
    kept = _record(files[-1]) if files else None
    if kept is None:
        return None
    return {name: mark for name, mark in kept["centers"] if name in kept["left"]}


def _record(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    stored = file.read_bytes()
    content, seal = stored[:-_SEAL], stored[-_SEAL:]
    # A disk that loses a bit would else give another number that looks right.
    try:
        tree = from_bytes(content) if seal == sha256(content).digest() else None
    except MessageError as error:
        raise _unusable(file) from error
    # Another version of fedcox may sum in another way, and the two would be mixed unseen.
    known = {"version": _VERSION, "fedcox": _own_version()}
    if not isinstance(tree, dict) or any(tree.get(key) != known[key] for key in known):
        raise _unusable(file)
    if not _is_round(tree):
        raise _unusable(file)
    return dict(tree)


def _is_round(tree: dict[str, Any]) -> bool:
    whole = all(isinstance(tree.get(part), kind) for part, kind in _PARTS.items())
    return whole and all(isinstance(one, list) and len(one) == 2 for one in tree["centers"])


def _unusable(file: Path) -> MessageError:
    return MessageError(
        f"{file} is damaged, or of another version of fedcox.",
        ["Begin the study anew: nothing of a round that was altered is used."],
    )


@cache
def _own_version() -> str:
    return version("fedcox")


def _digest(queries: Sequence[AbstractQuery[Any]], each: Sequence[AbstractQuery[Any]]) -> bytes:
    apart = b"%d" % len(queries)
    return sha256(b"".join([apart, *(query.digest for query in [*queries, *each])])).digest()


def _write(file: Path, content: bytes) -> None:
    """On the disk, whole or not at all."""
    remove_leftovers(file)
    with whole_file(file) as part:
        part.write_bytes(content)
