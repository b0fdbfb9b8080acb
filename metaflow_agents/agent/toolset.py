"""What a role has at hand in one activation: its tools, its policy, the files that it sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from metaflow_agents.agent.ask_role import AskRole, Consult
from metaflow_agents.agent.offered import Offered
from metaflow_agents.agent.surroundings import ActivationTree, Surroundings
from metaflow_agents.agent.talking import AskPerson, Delegate, StartRole
from metaflow_agents.agent.tool_executor import Acting, May, Scene
from metaflow_agents.engine.work import Activation
from metaflow_agents.errors import AttemptFailed, RunError
from metaflow_agents.policy.action import Action, Verb
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.tools import PolicySpec
from metaflow_agents.schema.trust import joined
from metaflow_agents.schema.trusting import trusted_tools
from metaflow_agents.steps.assignment import tools_for
from metaflow_agents.steps.command import Commands
from metaflow_agents.steps.side_effects import Observations
from metaflow_agents.tools.port import Tool
from metaflow_agents.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from metaflow_agents.policy.policy import Policy


class Equipment:
    """Equips activations. `commands` give the tree that a step's command would see, and open its environment. `dry`: no server
    is started, since nobody calls its tools. `above`: the policies of the SOPs that this one is a step of. `allowed`: packages
    that the user lets the run install.
    """

    def __init__(self, sop: SOP, around: Surroundings, toolbox: Toolbox, observations: Observations, commands: Commands, *,
                 dry: bool = False, above: Sequence[PolicySpec | None] = (), allowed: Sequence[str] = ()) -> None:
        self._sop, self._around, self._toolbox, self._observations = sop, around, toolbox, observations
        self._commands, self._dry, self._above, self._allowed = commands, dry, above, allowed
        self._policies: dict[str, Policy] = {}
        self.screening = around.screening

    async def acting(self, activation: Activation, role: str, delegate: Delegate, consult: Consult,
                     untrusted: str = "") -> Acting:
        """The tool calls of an activation, not yet entered. Raises RunError where a server can't be asked for its tools."""
        names = self._names(activation, role)
        offered = await self._offered(activation, role, names, delegate, str(activation.key), consult)
        seen = self._commands.files(activation) if names else {}
        tree = ActivationTree(seen, activation.patterns if self._makes_files(activation) else ())
        return self._acting(activation, role, offered, tree, untrusted, None)

    async def alone(self, activation: Activation) -> Acting:
        """That of a step that calls a tool itself: the policy of the SOP holds, and no role's. Raises AttemptFailed where the
        tool's server can't be asked for its tools, or every call of it is denied: the server is not started then.
        """
        step = self._sop.steps[activation.key.step]
        name, key = step.tool or "", str(activation.key)
        tree = ActivationTree(self._commands.files(activation), activation.patterns if self._makes_files(activation) else ())
        if self._toolbox.elsewhere(name):
            acting = self._acting(activation, "", Offered(self._toolbox, [], []), tree, activation.untrusted, None)
            action = Action(self._verb(name), name)
            if acting.judged(action).verdict == "deny":
                raise AttemptFailed(f"`{action}` is not allowed ({acting.decide(f'{key}/tool.0', name, action).rule}), and "
                                    "nothing was done")
        try:
            offered = Offered(self._toolbox, self._toolbox.own((name,)), await self._listed((name,), key))
        except RunError as error:
            if type(error) is RunError:                 # the server's own fault; any other kind says itself what it stops
                raise AttemptFailed(str(error)) from error
            raise
        return self._acting(activation, "", offered, tree, activation.untrusted, None)

    async def below(self, activation: Activation, role: str, delegate: Delegate, scene: Scene) -> Acting:
        """That of a role which another one started in a call: its own tools, on the files of the other one."""
        offered = await self._offered(activation, role, self._sop.roles[role].tools, delegate, scene.key)
        tree = ActivationTree(dict(scene.files), scene.patterns)
        return self._acting(activation, role, offered, tree, scene.untrusted, scene.acting)

    async def beside(self, activation: Activation, role: str, delegate: Delegate, consult: Consult, key: str, acting: Acting,
                     untrusted: str = "") -> Acting:
        """That of a branch that goes its own way: on files of its own, which are those of `acting` as they stand. A role that
        is not the one of `acting` has its own tools, and asks nobody. `untrusted`: of what else it begins with.
        """
        names = self._names(activation, role) if role == acting.role else self._sop.roles[role].tools
        offered = await self._offered(activation, role, names, delegate, key, consult if role == acting.role else None)
        files = acting.tree.seen if acting.offered or not names else self._commands.files(activation)
        tree = ActivationTree(files, acting.tree.patterns, dict(acting.tree.written), set(acting.tree.deleted))
        return self._acting(activation, role, offered, tree, joined(acting.untrusted, untrusted), acting.above)

    def _names(self, activation: Activation, role: str) -> tuple[str, ...]:
        return tools_for(self._sop, self._sop.steps[activation.key.step], role, activation.scope)

    def _policy(self, role: str) -> Policy:
        """The policy of a role, or of a step without one (""); it is read, and what reads it loaded, when it is first asked."""
        if role not in self._policies:
            from metaflow_agents.policy.policy import Policy, widened

            own = self._sop.roles[role].policy if role else None
            self._policies[role] = Policy(widened(self._sop.policy, self._allowed), own, role_name=role,
                                          above=[widened(one, self._allowed) for one in self._above])
        return self._policies[role]

    def _acting(self, activation: Activation, role: str, offered: Offered, tree: ActivationTree, untrusted: str,
                above: Acting | None) -> Acting:
        step = self._sop.steps[activation.key.step]
        slot = self._around.state.active[activation.key.firing].slot(activation.key.item)
        doubted = [name for name in activation.labels if name in self._sop.inputs or name in self._sop.artifacts]
        may = May(partial(self._policy, role), untrusted, trusted_tools(self._sop, step), above, doubted)
        return Acting(self._around, step, role, slot, may, offered, tree, partial(self._commands.packages, activation))

    async def _offered(self, activation: Activation, role: str, names: tuple[str, ...], delegate: Delegate, key: str,
                       consult: Consult | None = None) -> Offered:
        step = self._sop.steps[activation.key.step]
        # A server whose every tool is denied is not even started.
        names = tuple(name for name in names
                      if not self._toolbox.elsewhere(name) or self._policy(role).ever(self._verb(name), _wide(name)))
        own = self._toolbox.own(names)
        if "ask_person" in names:
            own.append(AskPerson(self._around.desk, role, step.on_no_answer))
        if "start_role" in names:
            own.append(StartRole({name: each.profile for name, each in self._sop.roles.items() if name != role}, delegate))
        asked = {name: self._sop.roles[name].profile for name in step.talks_to if name != role}
        if asked and consult is not None:
            own.append(AskRole(role, asked, consult))
        return Offered(self._toolbox, own, await self._listed(names, key))

    async def _listed(self, names: tuple[str, ...], key: str) -> list[Mapping[str, Any]]:
        """What servers and services offer, as it was when the activation began: it is not determined, so it is journalled."""
        written = [] if self._dry else [name for name in names if self._toolbox.elsewhere(name)]
        if not written:
            return []

        async def look() -> Any:
            masks = self._around.secrets        # what a server says of its tools goes into prompts, and it was given secrets
            return [masks.masked_data(_told(tool)) for tool in await self._toolbox.offered(written)
                    if masks.masked(tool.name) == tool.name]

        listed: list[Mapping[str, Any]] = await self._observations.once(f"{key}/tools", look)
        return listed

    def _verb(self, name: str) -> Verb:
        """What a call of a server's or a service's tools is, to the policy."""
        source = name.partition(".")[0]
        return "mcp" if source in self._sop.mcp_servers else "call" if source in self._sop.tools else "api"

    def _makes_files(self, activation: Activation) -> bool:
        return bool(self._sop.artifacts[self._sop.steps[activation.key.step].makes.artifact].files)


def _wide(name: str) -> str:
    """`SERVER` is all of its tools."""
    return name if "." in name else f"{name}.*"


def _told(tool: Tool) -> Mapping[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
