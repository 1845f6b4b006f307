"""The shell script that starts a preset: its settings are written by the user it runs as, then its command is run.

What comes from users, tasks and models only ever stands in it as a quoted word; the command gets it by `"$@"` and by
variables, which a shell does not read again.
"""

import shlex
from collections.abc import Mapping

from seatrial.model.preset import Preset

AGENTS_DIR = "/opt/seatrial/agents"


def home_of(preset: Preset) -> str:
    """The agent's own folder, which is kept with the trial."""
    return f"/logs/agent/{preset.name}"


def start_script(preset: Preset, files: Mapping[str, str], *, later: bool) -> str:
    """The script for a step; `files` are texts by their paths below the home. A `later` step goes on with a session."""
    home = home_of(preset)
    lines = [_path(preset.name), f"mkdir -p {shlex.quote(home)}"]
    for path, text in files.items():
        whole = f"{home}/{path}"
        lines += [f"mkdir -p {shlex.quote(whole.rpartition('/')[0])}"]
        lines += [f"printf %s {shlex.quote(text)} >{shlex.quote(whole)}"]
    if preset.skills:
        skills = shlex.quote(f"{home}/{preset.skills}")
        copy = f'mkdir -p {skills} && cp -R "$HARBOR_SKILLS_DIR"/. {skills}/'
        lines += [f'if [ -d "${{HARBOR_SKILLS_DIR:-}}" ]; then {copy}; fi']
    if not (later and preset.continued and preset.sessions):
        return "\n".join([*lines, preset.command])
    return "\n".join(
        [
            *lines,
            'any_of() { for file in "$@"; do if [ -e "$file" ]; then return 0; fi; done; return 1; }',
            f"if any_of {shlex.quote(home)}/{preset.sessions}; then",
            preset.continued,
            "else",
            preset.command,
            "fi",
        ]
    )


def version_script(preset: Preset) -> str:
    """The script that asks for the version."""
    return f"{_path(preset.name)}\n{preset.version_command}"


def _path(name: str) -> str:
    """The agent's own programs come first. Which version is there only its layer knows, and a set-up needs none."""
    return f'for bin in {AGENTS_DIR}/{name}/*/bin; do if [ -d "$bin" ]; then export PATH="$bin:$PATH"; fi; done'
