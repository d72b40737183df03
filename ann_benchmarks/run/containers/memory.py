"""Whether the kernel has killed processes for memory, asked inside a container."""

import re
from contextlib import suppress
from pathlib import Path

# Where a container sees its control group's count: version 2, then version 1.
_COUNTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))


def killed_processes() -> int:
    """How many processes of this container were killed because it had reached its limit of memory."""
    for file in _COUNTS:
        with suppress(OSError):
            match = re.search(r"^oom_kill (\d+)$", file.read_text(), re.MULTILINE)
            return int(match[1]) if match else 0
    return 0
