"""The line that makes bubblewrap work on this system: how it is installed, and what keeps user namespaces from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_INSTALL: Mapping[str, str] = {                 # ID or ID_LIKE of os-release → the line
    "debian": "apt install bubblewrap",
    "ubuntu": "apt install bubblewrap",
    "fedora": "dnf install bubblewrap",
    "rhel": "dnf install bubblewrap",
    "centos": "dnf install bubblewrap",
    "amzn": "dnf install bubblewrap",
    "arch": "pacman -S bubblewrap",
    "alpine": "apk add bubblewrap setpriv",
    "suse": "zypper install bubblewrap",
    "opensuse": "zypper install bubblewrap",
    "void": "xbps-install bubblewrap",
    "gentoo": "emerge sys-apps/bubblewrap",
    "nixos": "nix-env -iA nixos.bubblewrap",
}
_AS_USER = ("nixos",)
_SETTINGS = (                                   # file of /proc/sys, what closes it, what opens it
    ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
)
_CONTAINER = ("/.dockerenv", "/run/.containerenv")


def install_line(release: Path = Path("/etc/os-release")) -> str:
    """How bubblewrap is installed on this system."""
    facts = _release(release)
    for name in (facts.get("ID", ""), *facts.get("ID_LIKE", "").split()):
        for known in (name, name.partition("-")[0]):                # opensuse-tumbleweed
            if known in _INSTALL:
                return _INSTALL[known] if known in _AS_USER else f"{_sudo()}{_INSTALL[known]}"
    return "install the package `bubblewrap` with the package manager of this system"


def unlock_line(settings: Path = Path("/proc/sys")) -> str:
    """What makes an installed bubblewrap work, as far as this system tells why it does not."""
    closed = [opening for name, closing, opening in _SETTINGS if _read(settings / name) == closing]
    if closed:
        return f"{_sudo()}sysctl -w {' '.join(closed)}"
    if any(Path(mark).exists() for mark in _CONTAINER):
        return ("start this container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
                "--security-opt systempaths=unconfined`, or with `--privileged`")
    return "`bwrap --unshare-all --ro-bind / / --proc /proc true` has to work: it says what keeps it from it"


def _sudo() -> str:
    return "" if os.geteuid() == 0 else "sudo "


def _release(file: Path) -> dict[str, str]:
    """The variables of an os-release file (https://www.freedesktop.org/software/systemd/man/os-release.html)."""
    lines = (line.partition("=") for line in _read(file).splitlines() if not line.startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, _, value in lines}


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:                             # this system has no such setting
        return ""
