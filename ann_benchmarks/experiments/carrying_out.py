"""Carrying an experiment out: its steps, one command after the other."""

import argparse
import os
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ann_benchmarks.common.cli import path_or_pattern
from ann_benchmarks.common.errors import NoDefinitionRuns, UserError
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.common.text import say, warn
from ann_benchmarks.data.datasets import canonical_name, make_sample, sample_name, sampled
from ann_benchmarks.data.datasets.own import stored_index
from ann_benchmarks.installing.main import main as install
from ann_benchmarks.run.containers.engine import OTHER_WAY, connect, find_image
from ann_benchmarks.run.request import Request, read_request

from .schema import FOLDER, Experiment, Options, Step, find_experiment, read_experiment

EXPERIMENT_OPTIONS = ("--experiment", "--mini")
ACCUMULATED = {"--setting"}  # options that add to those of the same name
BUILD_ONLY = "--build-only"
# Options of a step that say how to measure, without which its indexes are built all the same.
MEASURING_OPTIONS = {
    *("--clients", "--rate", "--slo", "--max-queries", "--duration", "--warmup", "--query-order"),
    *("--distinct-queries", "--target-recall", "--runs"),
    *("--rounds", "--until", "--budget", "--tiers", "--tier-method"),
}
SETTINGS = "ANN_BENCHMARKS_PG_SETTINGS"


def split_arguments(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Split a command line into the choice of an experiment, and the options for its steps."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--experiment", metavar="FILE", type=path_or_pattern)
    parser.add_argument("--mini", action="store_true")
    return parser.parse_known_args(arguments)


def carry_out(words: Sequence[str], parser: argparse.ArgumentParser, run: Callable[[Request], int]) -> int:
    """Run the steps of the experiment that a command line names; its other options override theirs.

    Return the exit status. A failed step is reported, and the next one begins: the same command continues
    with what is missing. NoDefinitionRuns ends the experiment.
    """
    chosen, given = split_arguments(words)
    if not chosen.experiment:
        raise UserError("--mini is the miniature of an experiment: add --experiment")
    experiment = read_experiment(find_experiment(chosen.experiment), chosen.mini, Options(parser))
    asked = Options(parser).parse(given)
    is_build = asked.build_only
    if is_build:
        experiment = replace(experiment, steps=list(steps_to_build(experiment.steps)))
    steps = [(step, step_request(step, parser, given)) for step in experiment.steps if not step.skip]
    say(f"experiment {experiment.name}: {experiment.title} ({counted(len(steps), 'step')})")
    failed = []
    for number, (step, request) in enumerate(steps, 1):
        say(f"step {number} of {len(steps)}, {step.name}: {step.title}")
        say(f"  {command_of(step, given)}")
        try:
            with settings_of(step):
                if not request.dry_run:
                    install_what_is_needed(step, request.local)
                    if step.sample > 1:
                        make_sample(*sampled(request.dataset))
                status = run(request)
        except NoDefinitionRuns:
            raise
        except UserError as error:
            warn(f"step {step.name}: {error}")
            status = 1
        if status:
            failed.append(step.name)
    if is_build:
        left = [word for word in given if word != BUILD_ONLY]
        say(f"to measure: python run.py {shlex.join(report_arguments(experiment, left))}")
    elif not asked.dry_run:
        say(f"report: python report.py {shlex.join(report_arguments(experiment, given))}")
    if failed:
        say(f"not complete: {', '.join(failed)}; the same command continues")
    return 1 if failed else 0


def report_arguments(experiment: Experiment, given: Sequence[str]) -> list[str]:
    """Return the words for report.py that show what the same words had run.py measure."""
    path = experiment.path
    name = path.stem if path.parent == FOLDER else str(path)
    return ["--experiment", name, *(["--mini"] if experiment.is_mini else []), *given]


def steps_to_build(steps: Sequence[Step]) -> Iterator[Step]:
    """Give the steps with the options alone that say what to build.

    A workload that writes has a table of its own, which it builds when it is measured.
    """
    for step in steps:
        if "--workload" in step.arguments and not step.skip:
            say(f"step {step.name}: nothing to build, because its workload builds a table of its own")
            continue
        yield replace(step, arguments=remove_options(step.arguments, MEASURING_OPTIONS))


def command_of(step: Step, given: Sequence[str]) -> str:
    """Write the command line of a step."""
    return f"python run.py {shlex.join(words_of(step, given))}"


def words_of(step: Step, given: Sequence[str]) -> list[str]:
    """Return the words of a step's command line, each option once: those given take the place of its own.

    The dataset of a step with a sample is the sample.
    """
    names = {word.partition("=")[0] for word in given if word.startswith("--")} - ACCUMULATED
    words = [*remove_options(step.arguments, names), *given]
    if step.sample == 1:
        return words
    dataset = sample_name(canonical_name(read_request(words).dataset), step.sample)
    return [*remove_options(words, {"--dataset"}), "--dataset", dataset]


def remove_options(words: Sequence[str], names: Collection[str]) -> list[str]:
    """Return the words of a command line without some options and their values."""
    kept: list[str] = []
    is_kept = True
    for word in words:
        if word.startswith("--"):
            is_kept = word.partition("=")[0] not in names
        kept += [word] if is_kept else []
    return kept


def step_request(step: Step, parser: argparse.ArgumentParser, given: Sequence[str]) -> Request:
    """Return what a step requests, with the options that are given besides its own."""
    request = Options(parser).parse(words_of(step, given))
    request = replace(request, run_groups=step.groups, skips_unavailable=True)
    index = stored_index(sampled(request.dataset)[0]) if request.target_recall else None
    return replace(request, own_index=index)


@contextmanager
def settings_of(step: Step) -> Iterator[None]:
    """Give the servers of a step its settings, which those of the user override."""
    words = [f"{name}={shlex.quote(value)}" for name, value in step.settings.items()]
    before = dict(os.environ)
    os.environ[SETTINGS] = " ".join([*words, before.get(SETTINGS, "")]).strip()
    try:
        yield
    finally:
        os.environ.pop(SETTINGS)
        os.environ.update(before)


def install_what_is_needed(step: Step, is_local: bool) -> None:
    """Install the releases that tags name, or build the images of a step that the engine does not have.

    An algorithm whose release cannot be installed is left out.
    """
    client = connect(OTHER_WAY) if step.install and not is_local else None
    for options in step.install:
        name = options["algorithm"]
        if client is None and ":" in name:
            try:
                install(["--local", "--algorithm", name])
            except UserError as error:
                warn(f"{name}: {error}")
        elif client is not None and find_image(client, f"ann-benchmarks-{name}") is None:
            values = options.get("build-arg", [])
            install(["--algorithm", name, *(["--build-arg", *values] if values else [])])
