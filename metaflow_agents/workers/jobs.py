"""The fixed table of what workers do: a request names an entry of it, and nothing else can be asked for."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """One parser: the function `module:function`, which takes bytes and keyword arguments and returns a JSON value.

    `package`: what the module imports from outside of the standard library, if anything. `seconds`: processor time for one input,
    and `seconds_per_mib` more for each MiB of it, up to `most_seconds`. `memory`: bytes of address space of the process.
    `output`: bytes of the largest result. `name` is the key in `JOBS`.
    """

    name: str
    module: str
    function: str
    package: str | None = None
    seconds: float = 10.0
    seconds_per_mib: float = 0.0
    most_seconds: float = 120.0
    memory: int = 512 * MIB
    output: int = 64 * MIB

    def allowed(self, size: int) -> float:
        """Seconds of processor time for an input of `size` bytes."""
        return min(self.most_seconds, self.seconds + self.seconds_per_mib * size / MIB)


JOBS = {
    job.name: job
    for job in (
        WorkerJob("html", "metaflow_agents.documents.markup", "html_job", "selectolax"),
        # A page of a PDF takes some 20 ms, and a megabyte may hold a few hundred of them.
        WorkerJob("pdf", "metaflow_agents.documents.pdf", "pdf_job", "pypdf", seconds_per_mib=20, memory=896 * MIB),
        WorkerJob("junit", "metaflow_agents.sandbox.junit", "junit_job", memory=256 * MIB, output=32 * MIB),
        WorkerJob(
            "code", "metaflow_agents.code.map.parsing", "parse_job", "tree_sitter", seconds=2, seconds_per_mib=8, output=16 * MIB
        ),
        WorkerJob(
            "page", "metaflow_agents.kits.company.pages", "page_job", "selectolax", seconds=2, memory=256 * MIB, output=4 * MIB
        ),
        WorkerJob(
            "script",
            "metaflow_agents.kits.company.scripts",
            "changes_job",
            "tree_sitter_javascript",
            seconds=2,
            seconds_per_mib=8,
            output=16 * MIB,
        ),
        WorkerJob(
            "structures", "metaflow_agents.kits.chemistry.molecules", "structures_job", "rdkit", memory=1024 * MIB, output=MIB
        ),
        WorkerJob(
            "json", "metaflow_agents.agent.repair_job", "repair_job", "json_repair", seconds=5, memory=256 * MIB, output=4 * MIB
        ),
    )
}
