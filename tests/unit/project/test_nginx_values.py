"""Folders on network file systems, as the kernel lists them."""

from pathlib import Path

import pytest

from project import nginx_values

LOCAL = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
23 22 0:21 / /proc rw - proc proc rw
broken
40 22 8:2 / /srv/a\040b rw - xfs /dev/sdb rw"""
NFS = "50 22 0:50 / /srv/shared rw,relatime shared:9 - nfs4 server:/x rw,vers=4.2,hard{}"


@pytest.mark.parametrize(
    ("folder", "mountinfo", "prompt"),
    [
        ("/srv/shared", "", True),
        ("/srv/shared/served", LOCAL, True),
        ("/srv/a b/served", LOCAL, True),
        ("/srv/shared/served", f"{LOCAL}\n{NFS.format('')}", False),
        ("/srv/sharedx", f"{LOCAL}\n{NFS.format('')}", True),
        ("/srv/shared/served", f"{NFS.format(',acregmin=1,acregmax=1,acdirmin=1,acdirmax=1')}\n{LOCAL}", True),
        ("/srv/shared/served", NFS.format(",acregmax=1,acdirmax=30"), False),
        ("/srv/shared/served", NFS.format(",acregmax=1"), False),
        ("/srv/shared/served", NFS.format(",noac"), True),
        ("/srv/shared/served", f"{NFS.format('')}\n60 50 8:3 / /srv/shared rw - ext4 /dev/sdc rw", True),
        ("/m/x", "70 1 0:60 / /m rw - cifs //server/x rw,vers=3.1.1,actimeo=1", True),
        ("/m/x", "70 1 0:60 / /m rw - cifs //server/x rw,vers=3.1.1,actimeo=60", False),
        ("/m/x", "70 1 0:60 / /m rw - fuse.sshfs server:/x rw", False),
        ("/m/x", "70 1 0:60 / /m rw - fuseblk /dev/sdd rw", True),
    ],
)
def test_a_folder_is_prompt_unless_a_network_remembers_it_for_longer(folder: str, mountinfo: str, prompt: bool) -> None:
    assert nginx_values.is_prompt_folder(Path(folder), mountinfo) is prompt
