"""What `prototype.yaml`, `harden.yaml` and `software_company.yaml` call: samples laid out, a product held against what makes it
installable, what its use came to, what its tests notice, and the report of all this.
"""

from metaflow_agents.kits.company.feedback import next_wish
from metaflow_agents.kits.company.material import material_read
from metaflow_agents.kits.company.mutants import mutants
from metaflow_agents.kits.company.near import faulty_files, files_near, plan_tests
from metaflow_agents.kits.company.pictures import photographs
from metaflow_agents.kits.company.probing import means, probe_pack, script_of_tests
from metaflow_agents.kits.company.red import red_tests
from metaflow_agents.kits.company.repository import (
    changed_program,
    patch,
    program_with_tests,
    program_without_tests,
    put_back,
    report,
    repository_files,
    wanted,
)
from metaflow_agents.kits.company.steps import (
    beginnings,
    brief_faults,
    is_page,
    product_faults,
    requirements,
    requirements_of_tests,
    samples,
    strength,
    transcript,
)
from metaflow_agents.kits.company.weak import weak_tests

__all__ = ["beginnings", "brief_faults", "changed_program", "faulty_files", "files_near", "is_page", "material_read",
           "means", "mutants", "next_wish", "patch", "photographs", "plan_tests", "probe_pack", "product_faults",
           "program_with_tests", "program_without_tests", "put_back", "red_tests", "report", "repository_files",
           "requirements", "requirements_of_tests", "samples", "script_of_tests", "strength", "transcript", "wanted",
           "weak_tests"]
