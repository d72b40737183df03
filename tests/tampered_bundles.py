"""Series, files, truth and texts of a bundle that somebody has changed."""

import shutil
from dataclasses import replace
from pathlib import Path

from ann_benchmarks.submission.manifest import read_manifest, write_manifest

from .bundle_data import DATASET, attributes, set_arrays, set_attributes
from .tampering import (
    MB,
    RESULTS,
    Change,
    Tampering,
    attrs,
    claimed,
    copy_scaled,
    first,
    of_claim,
    on_a_tier,
    raise_truth,
    relabelled,
    replace_in,
    truth_from_answers,
)


def with_contact(contact: str) -> Change:
    """Give a contact that is part of every mail address, and leave one in a text."""

    def change(folder: Path) -> None:
        write_manifest(folder, replace(read_manifest(folder), contact=contact))
        (folder / "README.md").write_text("by john@example.org")

    return change


def first_picture(folder: Path) -> Path:
    return min(folder.glob("report/*.png"))


BUNDLES = (
    Tampering("a version", "mixed", "has part_version", attrs(part_version="9.9")),
    Tampering("a setting", "mixed", "given_settings depth", attrs(given_settings='{"depth": "4"}')),
    Tampering("a machine", "mixed", "cpu", attrs(cpu="A faster CPU")),
    Tampering("a file removed", "complete", "is missing from its curve",
              lambda folder: first(folder).unlink()),
    Tampering("a claimed file removed", "complete", "is missing from its curve",
              lambda folder: claimed(folder).unlink()),
    Tampering("a file added", "files", "does not belong to a bundle",
              lambda folder: (folder / "more.txt").write_text("x")),
    Tampering("a point twice", "duplicate", "has runs that compare",
              lambda folder: shutil.copy(first(folder), first(folder).with_name("euclidean_8_500.hdf5"))),
    Tampering("arguments of no run group", "division", "no run group",
              lambda folder: first(folder).rename(first(folder).with_name("euclidean_8_500.hdf5"))),
    Tampering("a run twice, scaled", "duplicate", "distributed as those of", copy_scaled),
    Tampering("a renamed series", "series", "lies in 'part-c4'",
              lambda folder: (folder / RESULTS / "part-c1").rename(folder / RESULTS / "part-c4")),
    Tampering("a series by another name", "series", "its series is",
              attrs(series='{"algorithm": "other", "clients": 1}')),
    Tampering("settings that were not given", "series", "has the settings depth=5",
              relabelled("part-c1", {}, settings="depth=5")),
    Tampering("hidden pooler", "series", "pooler_version 1.24.1, and its s", attrs(pooler_version="1.24.1")),
    Tampering("hidden shards", "series", "times of 2 shards", attrs(shard_build_times=[1.0, 2.0])),
    Tampering("hidden probes", "series", "says shard_probes 2", attrs(shard_probes=2)),
    Tampering("another dataset", "readable", "with the mark", attrs(truth="0123456789abcdef")),
    Tampering("another dataset's name", "readable", "no dataset 'tinier'",
              lambda folder: (folder / "results" / DATASET).rename(folder / "results/tinier")),
    Tampering("a run before its point", "timings", "outside the time",
              lambda folder: set_attributes(first(folder), run_started=[1e9, 1e9 + 5, 1e9 + 9])),
    Tampering("a point while others were measured", "timings", "was measured while",
              attrs(ended_at="2036-01-01T00:00:00+00:00")),
    Tampering("ended before it began", "timings", "before it began",
              attrs(started_at="2030-01-01T00:00:00+00:00")),
    Tampering("clients that were the limit", "clients", "were the limit", of_claim(clients_were_limit=True)),
    Tampering("a tier that was missed", "tier", "says tier_available", on_a_tier(131)),
    Tampering("a tier with more buffers", "series", "says shared_buffers", on_a_tier(shared_buffers=64 * MB)),
    Tampering("a tier by another name", "series", "says tier 1GB:8GB", on_a_tier(tier="1GB:8GB")),
    Tampering("a tier with a disk", "attributes", "has 'tier_iops'", on_a_tier(tier_iops=3000)),
    Tampering("runs that disagree", "warnings", "more than noise", of_claim(runs_disagree=True)),
    Tampering("a single run", "runs", "fewer than 3",
              lambda folder: set_attributes(claimed(folder), run_count=1,
                                            run_seconds=[attributes(claimed(folder))["best_search_time"]])),
    Tampering("a truth that is farther away", "answers", "other distances than the truth", raise_truth),
    Tampering("a truth from the answers", "answers", "nearer than the true", truth_from_answers),
    Tampering("a truth out of order", "truth", "do not ascend",
              lambda folder: set_arrays(folder / f"truth/{DATASET}.hdf5", distances=lambda d: d[:, ::-1])),
    Tampering("a picture removed", "report", "is missing", lambda folder: first_picture(folder).unlink()),
    Tampering("figures beside the pages", "report", "is neither a page nor a picture",
              lambda folder: (folder / "report/report.json").write_text("{}")),
    Tampering("a picture more", "report", "is neither a page nor a picture",
              lambda folder: shutil.copy(first_picture(folder), folder / "report/9.png")),
    Tampering("a page of another report", "report", "does not have the title",
              replace_in("report/report.html", lambda text: "<h1>Fast</h1>")),
    Tampering("the README", "report", "1,000 rows",
              replace_in("README.md", lambda text: text.replace("1,000 rows", "9,000,000 rows"))),
    Tampering("a smaller index", "mixed", "of the same build", attrs(index_size=1.0)),
    Tampering("other SQL of one build", "mixed", "has build_sql", attrs(build_sql='["CREATE INDEX 9"]')),
    *(
        Tampering(f"a format of {text}", "readable", "result_format", attrs(result_format=number))
        for text, number in (("nothing", None), ("an earlier version", 1))
    ),
    Tampering("no parts of recall", "attributes", "lacks 'recall_parts'", attrs(recall_parts=None)),
    Tampering("an e-mail address", "private", "mail addresses",
              replace_in("README.md", lambda text: text + "john@example.org")),
    Tampering("an address with a contact of one letter", "private", "mail addresses", with_contact("@")),
    Tampering("a password in quotes", "private", "passwords and keys",
              replace_in("README.md", lambda text: text + "password='hunter 5 x'")),
    Tampering("a password in JSON", "private", "passwords and keys",
              replace_in("report/report.md", lambda text: text + '{"password": "hunter5"}')),
    *(
        Tampering(f"private: {text}", "private", said, attrs(note=text))
        for text, said in (
            ("CREATE ROLE a PASSWORD 'x 5'", "passwords and keys"),
            ("IDENTIFIED BY 'x5'", "passwords and keys"),
            ("psql --password hunter5", "passwords and keys"),
            ("SCRAM-SHA-256$4096:abc=$def=:ghi=", "passwords and keys"),
            ("md5" + "0a" * 16, "passwords and keys"),
            ("host=db1.shop.example dbname=x", "names of hosts"),
            ("/export/home/jane/x", "paths of folders"),
        )
    ),
    Tampering("a folder with a space", "private", "paths of folders",
              replace_in("README.md", lambda text: text + "/home/alice smith/x")),
    Tampering("a network address", "private", "addresses of machines",
              replace_in("README.md", lambda text: text + "10.20.30.40")),
    Tampering("a mail address in UTF-16", "private", "mail addresses",
              lambda folder: (folder / "README.md").write_bytes("by john@example.org".encode("utf-16-le"))),
    Tampering("a mail address in the name of a file", "private", "mail addresses in the name of the file",
              lambda folder: [(folder / "logs").mkdir(), (folder / "logs/john@example.org.log").touch()]),
    Tampering("a home folder", "private", "paths of folders", attrs(command_line="python /home/jane/run.py")),
)  # fmt: skip
