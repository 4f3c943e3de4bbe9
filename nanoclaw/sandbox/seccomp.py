"""A filter of system calls: the program of a kernel's seccomp, for what a command in a sandbox has no business with."""

from __future__ import annotations

import errno
import os
import struct

from nanoclaw.sandbox import attributes

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "arm64": 0xC00000B7}
_LOAD, _EQUAL, _MORE, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # where they are in what the program is given
_ALLOW, _KILL, _ERROR, _NOTIFY = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000

# name: (on x86_64, on ARM); of the newer ones the number is the same
_DENIED: dict[str, tuple[int, int]] = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "kcmp": (312, 272), "perf_event_open": (298, 241), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "move_pages": (279, 239), "migrate_pages": (256, 238),
    # what is where
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "unshare": (272, 97),
    "setns": (308, 268), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262), "lookup_dcookie": (212, 18), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225), "listns": (470, 470),
    # large parts of the kernel that commands don't need
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # the machine
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "syslog": (103, 116), "sethostname": (170, 161),
    "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "vhangup": (153, 58),
}  # fmt: skip
_DENIED_ON_X86 = (172, 173, 154)  # iopl, ioperm, modify_ldt

_SHARED: dict[str, tuple[int, int]] = {
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191),
    "semop": (65, 193), "semtimedop": (220, 192), "msgget": (68, 186), "msgctl": (71, 187), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "mq_open": (240, 180), "mq_unlink": (241, 181),
}  # fmt: skip
"""Memory, semaphores and queues of all the user's processes, where no namespace keeps them apart."""

_MISSING = {"pidfd_open": (434, 434), "file_setattr": (469, 469)}
"""Leading to processes and files of others, and new enough for all to do without: said not to exist."""

_EXTENDED = ((188, 5), (189, 6), (190, 7), (197, 14), (198, 15), (199, 16), (463, 463), (466, 466))
_TIMES = ((132, -1), (235, -1), (261, -1))
"""utime, utimes, futimesat, which libraries don't use."""

_CLONE, _CLONE3, _IOCTL, _SOCKET, _TRUNCATE = (56, 220), 435, (16, 29), (41, 198), (76, 45)
_OF_OTHERS = {
    (141, 140): 1, (302, 261): 0, (251, 30): 1, (203, 122): 0, (144, 119): 0, (142, 118): 0, (314, 274): 0,
}  # fmt: skip
"""setpriority, prlimit64, ioprio_set; sched_setaffinity, sched_setscheduler, sched_setparam, sched_setattr; each with
the argument that says whose: 0 is the caller itself."""

_CHMOD = {"chmod": (90, -1, 1), "fchmod": (91, 52, 1), "fchmodat": (268, 53, 2), "fchmodat2": (452, 452, 2)}
_MKDIR = {"mkdir": (83, -1, 1), "mkdirat": (258, 34, 2)}
_UMASK = (95, 166)
_MKNOD = {"mknod": (133, -1, 1), "mknodat": (259, 33, 2), "creat": (85, -1, 1)}
_OPEN = {"open": (2, -1, 1), "openat": (257, 56, 2)}
"""Each with its argument that has a mode; of the last ones its flags, behind which the mode is."""
_OPENAT2 = 437  # its mode cannot be looked at; libraries fall back to openat
_SETS_ID, _CREATES, _OWNER_READS = 0o6000, 0o100 | 0o20000000, 0o400

_NEWEST, _GAPS = 470, ((336, 424), (294, 424))
"""Later ones aren't known here, and are said not to exist; nor are those between the last of each architecture and the
first that all have in common."""

_FILE_KINDS, _OF_FILES, _POLICY = 0xC000FF00, 0x40006600, 0x800C6613
"""Requests that change how a file system treats a file: flags, verity; and the encryption of a folder."""

_NEW_NAMESPACES = 0x7E020000
_TYPED_FOR_OTHERS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_FAMILIES = (1, 2, 10, 16)  # UNIX, INET, INET6, NETLINK; among those that no namespace keeps apart is VSOCK


def program(*, alone: bool, truncate: bool = True) -> bytes | None:
    """The filter, for this machine; None if its numbers are not known. Who is not `alone`, in namespaces of its own,
    makes no sockets but pairs, leaves processes of others as they are, and has `attributes` asked before it changes
    any; without `truncate` no file can be cut by its path."""
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        return None
    is_arm = machine != "x86_64"
    denied = [numbers[is_arm] for numbers in _DENIED.values()] + ([] if is_arm else list(_DENIED_ON_X86))
    if not alone:
        denied += [_SOCKET[is_arm], *(numbers[is_arm] for numbers in _SHARED.values())]
    if not truncate:
        denied.append(_TRUNCATE[is_arm])
    unknown, refused = _error(errno.ENOSYS), _error(errno.EPERM)
    steps = [_load(_ARCHITECTURE), _jump(_EQUAL, _ARCHITECTURES[machine], 1, 0), _return(_KILL), _load(_NUMBER)]
    steps += _if(_EQUAL, _CLONE3, unknown)  # its flags cannot be looked at; libraries fall back to clone
    steps += _if(_EQUAL, _OPENAT2, unknown)
    steps += [one for number in denied for one in _if(_EQUAL, number, refused)]
    steps += _if(_MORE, _NEWEST, unknown)  # and the numbers of x32, another way to the same calls
    last, first = _GAPS[is_arm]
    steps += [_jump(_MORE, last, 0, 2), _jump(_AT_LEAST, first, 1, 0), _return(unknown)]
    steps += _about(_CLONE[is_arm], 0, _if(_ANY_BIT, _NEW_NAMESPACES, refused))
    steps += _about(_IOCTL[is_arm], 1, [step for code in _TYPED_FOR_OTHERS for step in _if(_EQUAL, code, refused)])
    for call in (_CHMOD | _MKNOD).values():  # no program that others run with this user's rights
        steps += _about(call[is_arm], call[2], _if(_ANY_BIT, _SETS_ID, refused))
    # a folder that its owner can't list would hide from the search what its owner's git runs
    for call in (_CHMOD | _MKDIR).values():
        steps += _about(call[is_arm], call[2], [_jump(_ANY_BIT, _OWNER_READS, 1, 0), _return(refused)])
    steps += _about(_UMASK[is_arm], 0, _if(_ANY_BIT, _OWNER_READS, refused))
    steps += [step for numbers in _EXTENDED for step in _if(_EQUAL, numbers[is_arm], _error(errno.EOPNOTSUPP))]
    for call in _OPEN.values():
        mode = [_load(_ARGUMENTS + 8 * (call[2] + 1)), *_if(_ANY_BIT, _SETS_ID, refused)]
        steps += _about(call[is_arm], call[2], [_jump(_ANY_BIT, _CREATES, 0, len(mode)), *mode])
    families = [_jump(_EQUAL, one, len(_FAMILIES) - place, 0) for place, one in enumerate(_FAMILIES)]
    steps += _about(_SOCKET[is_arm], 0, [*families, _return(_error(errno.EAFNOSUPPORT))])
    if not alone:
        for numbers in _MISSING.values():
            steps += _if(_EQUAL, numbers[is_arm], unknown)
        for numbers, argument in _OF_OTHERS.items():
            steps += _about(numbers[is_arm], argument, [_jump(_EQUAL, 0, 1, 0), _return(refused)])
        of_files = [struct.pack("HBBI", _AND, 0, 0, _FILE_KINDS), *_if(_EQUAL, _OF_FILES, refused)]
        steps += _about(_IOCTL[is_arm], 1, [*_if(_EQUAL, _POLICY, refused), *of_files])
        for many, verdict in ((attributes.CALLS, _NOTIFY), (_TIMES, refused)):
            for number in (numbers[is_arm] for numbers in many if numbers[is_arm] >= 0):
                steps += _if(_EQUAL, number, verdict)
    return b"".join([*steps, _return(_ALLOW)])


def _about(call: int, argument: int, steps: list[bytes]) -> list[bytes]:
    """Steps that look at an argument of one call, none of one that isn't there; the number is loaded again after
    them."""
    if call < 0:
        return []
    inside = [_load(_ARGUMENTS + 8 * argument), *steps, _load(_NUMBER)]
    return [_jump(_EQUAL, call, 0, len(inside)), *inside]


def _if(kind: int, value: int, verdict: int) -> list[bytes]:
    return [_jump(kind, value, 0, 1), _return(verdict)]


def _load(offset: int) -> bytes:
    return struct.pack("HBBI", _LOAD, 0, 0, offset)


def _jump(kind: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("HBBI", kind, if_true, if_false, value)


def _return(verdict: int) -> bytes:
    return struct.pack("HBBI", _RETURN, 0, 0, verdict)


def _error(number: int) -> int:
    return _ERROR | number
