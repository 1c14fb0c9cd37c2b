"""What Linux itself holds a process to that is to compute and do nothing else; for good.

Both need no privileges: Landlock (Linux 5.13) knows which files may be read, seccomp which calls of
the kernel's may be made. Where one is missing, the other holds all the same.

Sources: Documentation/userspace-api/landlock.rst and seccomp_filter.rst of Linux.
"""

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress

_SET_DEATH_SIGNAL, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES = 1, 22, 38  # of prctl
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # of every architecture
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # how many there are, by version; 16 since 5
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM

# By architecture its number and, of each call that is refused, its number: for sockets, programs,
# processes and threads, signals, others' memory, what is around files, and the kernel's own doors.
_CALLS: dict[str, tuple[int, tuple[int, ...]]] = {
    "x86_64": (
        0xC000003E,
        (
            *(41, 42, 49, 53),  # socket, connect, bind, socketpair
            *(56, 57, 58, 59, 322, 435),  # clone, fork, vfork, execve, execveat, clone3
            *(62, 129, 200, 234, 297, 424, 434, 438),  # kill and its kin, pidfd_open and _getfd
            *(101, 310, 311, 312),  # ptrace, process_vm_readv and _writev, kcmp
            *(90, 91, 92, 93, 94, 260, 268, 452),  # chmod, chown and their kin
            *(132, 188, 189, 190, 197, 198, 199, 235, 261, 280),  # utime, setxattr and their kin
            *(165, 246, 250, 272, 298, 302, 308, 321, 323, 425),  # mount to io_uring_setup
        ),
    ),
    "aarch64": (
        0xC00000B7,
        (
            *(198, 199, 200, 203),
            *(220, 221, 281, 435),
            *(129, 130, 131, 138, 240, 424, 434, 438),
            *(117, 270, 271, 272),
            *(52, 53, 54, 55, 452),
            *(5, 6, 7, 14, 15, 16, 88),
            *(40, 97, 104, 219, 241, 261, 268, 280, 282, 425),
        ),
    ),
}


def end_with_parent() -> None:
    """Have this process be killed when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def confine(readable: Iterable[str]) -> None:
    """Leave this process to read files and folders at and below these paths, and to compute."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _confine_files(libc, readable)
    _confine_calls(libc)


def _confine_files(libc: ctypes.CDLL, readable: Iterable[str]) -> None:
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return
    handled = struct.pack("=Q", (1 << _FILE_RIGHTS.get(version, 16)) - 1)
    rules = libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    for path in readable:
        with suppress(OSError):  # of what is not there nothing can be read
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rights = _READ_FILE | (_READ_DIRECTORY if os.path.isdir(path) else 0)
            libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, place), 0)
            os.close(place)
    libc.syscall(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def _confine_calls(libc: ctypes.CDLL) -> None:
    if platform.machine() not in _CALLS:
        return
    architecture, refused = _CALLS[platform.machine()]
    refuse = (_RETURN, 0, 0, _REFUSE)
    steps = [
        (_LOAD, 0, 0, 4),  # the architecture: that of 32 bits has other numbers
        (_IF_EQUAL, 1, 0, architecture),
        refuse,
        (_LOAD, 0, 0, 0),  # the call's number
        (_IF_AT_LEAST, 0, 1, 0x40000000),  # x32, the same calls once more
        refuse,
    ]
    for number in refused:
        steps += [(_IF_EQUAL, 0, 1, number), refuse]
    steps.append((_RETURN, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    libc.prctl(_SET_SECCOMP, 2, program, 0, 0)
