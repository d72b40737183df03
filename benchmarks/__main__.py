"""This project's claims about its own speed and honesty, measured again.

python -m benchmarks                    the claims, a line each
python -m benchmarks NAME --help        what one measures, its goal and its options
python -m benchmarks NAME [OPTIONS]     measure it; --json FILE keeps every round's figures
"""

if __name__ == "__main__":
    from ann_benchmarks.common.beginning import begin

    begin()

import argparse
import ast
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def find_claims() -> dict[str, str]:
    """Return the sentence of each claim by its name, without an import: a claim is a module with cases."""
    claims = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text())
        if any(isinstance(node, ast.FunctionDef) and node.name == "cases" for node in tree.body):
            claims[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return claims


def read_options(name: str, claim: Any, words: list[str]) -> argparse.Namespace:
    """Read a claim's options; one is its default value, which gives the type, or what add_argument takes.

    A list takes several values.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=f"{claim.__doc__}\ngoal: {claim.GOAL or 'none, it describes'}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shared = {"rounds": 5, "seed": 1, "json": {"type": Path, "help": "a file for all figures"}}
    for option, given in {**shared, **claim.OPTIONS}.items():
        settings = dict(given) if isinstance(given, Mapping) else {"default": given}
        default = settings.get("default")
        if isinstance(default, list):
            settings, default = {"nargs": "+", **settings}, default[0]
        if default is not None:
            settings.setdefault("type", type(default))
            settings["help"] = f"{settings.get('help', '')} (default: {settings['default']})".strip()
        parser.add_argument(f"--{option.replace('_', '-')}", **settings)
    return parser.parse_args(words)


def main() -> None:
    claims = find_claims()
    name, words = sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]
    if name not in claims:
        print(__doc__)
        print("\n".join(f"{each:14} {sentence}" for each, sentence in claims.items()))
        sys.exit(0 if name in ("", "-h", "--help") else f"error: '{name}' must be one of these claims")
    print(f"{name}: {claims[name]}", file=sys.stderr, flush=True)
    claim = import_module(f"benchmarks.{name}")
    args = read_options(name, claim, words)
    report = import_module("benchmarks.harness").ClaimReport(name, claim.GOAL, args)
    for found in claim.cases(args):
        report.add(found)


if __name__ == "__main__":
    from ann_benchmarks.common.cli import run_command

    run_command(main)
