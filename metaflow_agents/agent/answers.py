"""What an answer becomes: text, data or files in the form of the artifact."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from metaflow_agents.agent.applying import Answered, PartTaken, apply_answers, following, without, written_answers
from metaflow_agents.agent.blocks import holds_block, read_blocks
from metaflow_agents.agent.conversation import WRITING
from metaflow_agents.agent.tool_executor import Acting
from metaflow_agents.agent.writing import FileWriting
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AnswerInvalid, FilesInvalid
from metaflow_agents.journal.values import Values
from metaflow_agents.models.port import Reply
from metaflow_agents.schema import paths
from metaflow_agents.schema.binary import Content, content, data_of
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.sop import SOP
from metaflow_agents.steps.validation import Acceptance

_FENCED = re.compile(r"\s*```[a-zA-Z]*\n(.*)\n```\s*", re.DOTALL)


def unfenced(text: str) -> str:
    """A text without the code fence around the whole of it."""
    fenced = _FENCED.fullmatch(text)
    return fenced[1] if fenced else text


@dataclass(frozen=True, slots=True)
class TakenAnswer:
    """An answer that fits its artifact. `said`: all of it, with what was taken of those before it, as one text.

    Of files: the blocks of each answer, and what these, and tools, wrote and deleted.
    """

    work: Work
    said: str
    answered: Answered = ()
    written: Mapping[str, Content] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()


class Answers:
    """Takes answers. `dry`: rules of files are not asked for, since what stands in for files could not keep them."""

    def __init__(self, sop: SOP, acceptance: Acceptance, values: Values, *, dry: bool) -> None:
        self._sop, self._acceptance, self._values, self._dry = sop, acceptance, values, dry

    def taken(self, activation: Activation, reply: Reply, acting: Acting, kept: Answered = ()) -> TakenAnswer:
        """What an answer becomes, with what was `kept` of those before it. Raises AnswerInvalid with all that is wrong with it;
        PartTaken where it is files of which something stands.
        """
        artifact = self._sop.steps[activation.key.step].makes.artifact
        if self._sop.artifacts[artifact].files:
            return self._files_taken(activation, reply, acting, kept)
        if reply.text is None:
            work = self._acceptance.accept(activation, reply.value)
        elif self.plain(activation, acting):
            work = self._acceptance.accept(activation, reply.text)
        else:
            work = self._acceptance.accept(activation, self._acceptance.validator(artifact).validate_json(unfenced(reply.text)))
        return TakenAnswer(work, reply.said)

    def _files_taken(self, activation: Activation, reply: Reply, acting: Acting, kept: Answered) -> TakenAnswer:
        try:
            written, deleted, answered = self._files_made(activation, reply, acting, kept)
        except AnswerInvalid as error:
            refused = self._refused_besides(activation, reply, acting)
            if not refused:
                raise
            raise PartTaken([*error.faults, *refused.values()],
                            without(error.kept if isinstance(error, PartTaken) else (), refused)) from None
        writing = None if self._dry else self._writing(activation, written, deleted, acting)
        try:
            work = self._acceptance.files(activation, written, deleted, ruled=not self._dry,
                                          may_stay=self._may_stay(activation, acting),
                                          refused=None if writing is None else writing.refused)
        except FilesInvalid as error:
            stands = without(answered, error.refused) if error.refused else self.stands(answered, acting)
            raise PartTaken(error.faults, stands) from None
        return TakenAnswer(work, written_answers(answered) if kept else reply.said, answered, written, deleted)

    def _refused_besides(self, activation: Activation, reply: Reply, acting: Acting) -> dict[str, str]:
        """What the policy refuses of an answer whose blocks can't be carried out, so that its author is told all at once."""
        blocks, _ = read_blocks(reply.text or "")
        written = {path: block.text for block in blocks for path in block.paths if paths.matches(activation.patterns, path)}
        refused = self._writing(activation, written, (), acting).refused
        return {} if self._dry else {path: f"{path!r}: {why}" for path in written if (why := refused(path))}

    async def allowed(self, activation: Activation, taken: TakenAnswer, acting: Acting) -> None:
        """Before an answer that was taken becomes an artifact: a person is asked about files that the policy asks about. Raises
        PartTaken with what they did not allow; Waiting.
        """
        if not self._dry and self._sop.artifacts[self._sop.steps[activation.key.step].makes.artifact].files:
            try:
                await self._writing(activation, taken.written, taken.deleted, acting).allowed()
            except FilesInvalid as error:
                raise PartTaken(error.faults, without(taken.answered, error.refused)) from None

    def stands(self, answered: Answered, acting: Acting) -> Answered:
        """What of answers in form stands where something else is wrong with them, so that the next one says only what changes.
        Where tools write files as well, the author says all of it: nothing tells which of the two came last.
        """
        return () if self.tools_write(acting) else answered

    def laid_out(self, activation: Activation, acting: Acting, kept: Answered) -> Answered:
        """What can be carried out of what was kept: a path that was left out may have made room for another. From now on the
        role's tools see the files so, where none of them writes.
        """
        written, deleted = dict[str, Content](), tuple[str, ...]()
        if kept:
            try:
                written, deleted = apply_answers(kept, self._files_now(activation, acting), activation.patterns)
            except PartTaken as error:
                return self.laid_out(activation, acting, error.kept)
        if acting.offered and not self.tools_write(acting):
            acting.tree.show({path: data_of(held) for path, held in written.items()}, deleted)
        return kept

    def _writing(self, activation: Activation, written: Mapping[str, Content], deleted: tuple[str, ...],
                 acting: Acting) -> FileWriting:
        by_tools = {path for path, data in acting.tree.written.items() if path in written and data_of(written[path]) == data}
        return FileWriting(activation, acting, written, deleted, self._files_before(activation),
                       by_tools | (acting.tree.deleted - set(written)), partial(self._acceptance.named, activation),
                       lambda path, held: self._acceptance.copied(path, digest(data_of(held))))

    def plain(self, activation: Activation, acting: Acting) -> bool:
        """Whether any words whatever are an answer: of a text, and of files once tools wrote some, or where they may stay."""
        artifact = self._sop.steps[activation.key.step].makes.artifact
        if self._sop.artifacts[artifact].files:
            return bool(acting.tree.written or acting.tree.deleted) or self._may_stay(activation, acting)
        return self._acceptance.schema(artifact) in (None, {"type": "string"})

    def only_path(self, activation: Activation, acting: Acting) -> str | None:
        """The one path that an activation may write; None where it may write others or by tools, or where that file exists, so
        that only the answer can say what it means.
        """
        path = paths.literal(activation.patterns[0]) if len(activation.patterns) == 1 else None
        return None if path is None or self.tools_write(acting) or path in self._files_before(activation) else path

    @staticmethod
    def tools_write(acting: Acting) -> bool:
        """Whether the role has tools that write files."""
        return any(told["name"] in WRITING for told in acting.offered.told())

    def _may_stay(self, activation: Activation, acting: Acting) -> bool:
        """Whether files that are there may stay as they are: where functions of the SOP change them, and none had to."""
        return acting.offered.changes_files and bool(self._files_before(activation))

    def value(self, work: Work) -> Any:
        """What a template sees of it."""
        return self._acceptance.value(work)

    def _files_made(self, activation: Activation, reply: Reply, acting: Acting,
                    kept: Answered) -> tuple[dict[str, Content], tuple[str, ...], Answered]:
        """What the tools wrote and, over it, what the blocks of the answers say; or the files that a function answered with."""
        if reply.text is None:
            return *self._acceptance.mapping(activation, reply.value), ()
        answer = reply.text
        by_tools, gone = _by_tools(acting), acting.tree.deleted
        if (by_tools or gone or self._may_stay(activation, acting)) and not kept and not holds_block(answer):
            return by_tools, tuple(sorted(gone)), ()
        blocks, faults = read_blocks(answer)
        answered = following(kept, blocks)
        written, deleted = apply_answers(answered, self._files_now(activation, acting), activation.patterns, faults)
        left = {path: text for path, text in by_tools.items() if path not in deleted}
        return {**left, **written}, tuple(sorted({*deleted, *gone} - set(written))), answered

    def _files_now(self, activation: Activation, acting: Acting) -> dict[str, Content]:
        """The files that edits apply to, with what tools did."""
        gone = acting.tree.deleted
        return {path: text for path, text in self._files_before(activation).items() if path not in gone} | _by_tools(acting)

    def _files_before(self, activation: Activation) -> Mapping[str, Content]:
        """The files that it begins with: the latest version, and on it what the items made that this one comes after."""
        latest: Mapping[str, Content] = {} if activation.base is None else self._values.view(activation.base)
        patches = activation.patches()
        if not patches:
            return latest
        found = dict(latest)
        for patch in patches:
            for path in patch.deleted:
                found.pop(path, None)
            found.update((path, self._values.content(blob, path)) for path, blob in patch.written.items())
        return found


def _by_tools(acting: Acting) -> dict[str, Content]:
    return {path: content(data, path) for path, data in acting.tree.written.items()}
