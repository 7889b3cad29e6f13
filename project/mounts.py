"""Whether this machine sees at once what another one removes from a folder that they share.

Network file systems remember what they were told of folders and files, NFS for up to a minute if nothing is said.
"""

import re
from dataclasses import dataclass
from pathlib import Path

PROMPT_SECONDS = 1
"""What they may remember it for at the most."""

_NETWORK = re.compile(r"nfs4?|cifs|smb3|smbfs|ceph|lustre|afs|9p|virtiofs|fuse\..+")
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of /proc/self/mountinfo (proc(5)): where, of which kind, with which options."""

    point: Path
    kind: str
    options: dict[str, str]

    @property
    def is_prompt(self) -> bool:
        if not _NETWORK.fullmatch(self.kind) or "noac" in self.options:
            return True
        limits = [self.options.get(name) for name in ("acregmax", "acdirmax")]
        limits = limits if any(limits) else [self.options.get("actimeo")]
        return all(limit is not None and limit.isdecimal() and int(limit) <= PROMPT_SECONDS for limit in limits)


def is_prompt(folder: Path, mountinfo: str) -> bool:
    """`folder` is absolute, without symbolic links; it need not be there. An unknown one is believed to be local."""
    found = [mount for mount in map(_read, mountinfo.splitlines()) if mount and folder.is_relative_to(mount.point)]
    deepest = max(enumerate(found), key=lambda one: (len(one[1].point.parts), one[0]), default=None)  # the last on top
    return deepest is None or deepest[1].is_prompt


def _read(line: str) -> Mount | None:
    before, _, after = line.partition(" - ")
    match before.split(), after.split():
        case [_, _, _, _, point, *_], [kind, _, *rest]:
            told = ",".join(rest).split(",")
            options = {name: value for name, _, value in (one.partition("=") for one in told)}
            plain = _OCTAL.sub(lambda found: chr(int(found[1], 8)), point)
            return Mount(Path(plain), kind, options)
        case _:
            return None
