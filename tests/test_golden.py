"""What commands make of stored results is what it was: python -m tests.golden writes it anew."""

import subprocess
import sys
from pathlib import Path


def test_commands_make_of_stored_results_what_they_did():
    command = [sys.executable, "-m", "tests.golden", "--check"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
