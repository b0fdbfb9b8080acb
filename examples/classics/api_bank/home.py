"""A house that can be told: scenes of devices, and devices that switch themselves at a time."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from records import Base, Refused, Time, api, named, time_in

SceneName = Annotated[str, Field(description="the name of the scene")]
Devices = Annotated[list[dict[str, str]], Field(description="like [{'name': 'light', 'description': 'light in the kitchen'}]")]
DeviceName = Annotated[str, Field(description="the name of the device")]


def _listed(devices: list[dict[str, str]]) -> list[dict[str, str]]:
    if any("name" not in one or "description" not in one for one in devices):
        raise Refused("Invalid device format.")
    found = [{"name": one["name"].strip().lower(), "description": one["description"].strip()} for one in devices]
    if len({one["name"] for one in found}) < len(found):
        raise Refused("Device name cannot be duplicated.")
    return sorted(found, key=lambda one: one["name"])


@api("AddScene")
def add_scene(base: Base, name: SceneName, devices: Devices) -> str:
    """Add a scene of smart devices to the smart home."""
    wanted, scenes = named(name, "Scene name"), base.table("Scenes")
    if wanted in scenes:
        raise Refused("Scene name already exists.")
    scenes[wanted] = _listed(devices)
    return "success"


@api("QueryScene")
def query_scene(base: Base, name: SceneName) -> list[Any]:
    """Query a scene of the smart home: gives its devices."""
    wanted = named(name, "Scene name")
    if wanted not in base.table("Scenes"):
        raise Refused("Scene not found.")
    return base.table("Scenes")[wanted]                 # type: ignore[no-any-return]


@api("ModifyScene")
def modify_scene(base: Base, name: SceneName, devices: Devices) -> str:
    """Modify a scene of the smart home: other devices."""
    wanted, scenes = named(name, "Scene name"), base.table("Scenes")
    if wanted not in scenes:
        raise Refused("The scene does not exist.")
    scenes[wanted] = _listed(devices)
    return "success"


@api("DeleteScene")
def delete_scene(base: Base, name: SceneName) -> str:
    """Delete a scene of the smart home."""
    wanted = named(name, "Scene name")
    if wanted not in base.table("Scenes"):
        raise Refused("The scene does not exist.")
    del base.table("Scenes")[wanted]
    return "success"


@api("TimedSwitch")
def timed_switch(base: Base, name: DeviceName, time: Time,
                 on: Annotated[bool, Field(description="whether it is switched on or off")]) -> str:
    """Switch a smart device on or off at a time."""
    at, switches = time_in(time), base.table("TimeSwitch").setdefault(named(name, "Name"), [])
    there = next((one for one in switches if one["time"] == at), None)
    if there is None:
        switches.append(there := {"time": at})
    there["on"] = on
    return "success"


@api("CancelTimedSwitch")
def cancel_timed_switch(base: Base, name: DeviceName, time: Time) -> str:
    """Cancel what a smart device would do at a time."""
    wanted, at = named(name, "name"), time_in(time)
    if wanted not in base.table("TimeSwitch"):
        raise Refused("device name does not exist.")
    switches = base.table("TimeSwitch")[wanted]
    left = [one for one in switches if one["time"] != at]
    if len(left) == len(switches):
        raise Refused("time does not exist.")
    base.table("TimeSwitch")[wanted] = left
    return "success"
