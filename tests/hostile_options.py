"""Hostile command lines, generated: what people, or programs, could give the commands."""

from hypothesis import strategies as st

DIGITS = "9" * 5000
NUMBERS = [
    "0", "-1", "-0", "1.5", "1e3", "1e999", "-1e999", "nan", "inf", "-inf", "1e-999", "0x10", "1_0", "+3",
    "٣", "１２", "²", "½", "", " ", "--", "3 ", "true", "None", "1,", ",", "1,,2", "1;2", "\x1b[31m", "a\nb",
    DIGITS, f"-{DIGITS}", f"0.{DIGITS}", f"1e{DIGITS}", "2147483648", "9223372036854775808", "1e308",
    "1e18", "4294967296", "100000", "18446744073709551616", "1,2,3", "1e-308", "0.0000001", "1/2", "5%",
    "500%",
]  # fmt: skip
SIZES = [
    *NUMBERS, "8g", f"{DIGITS}g", "1e9g", "0.1b", "1.g", "8gg", "٣g", "-1g", "999999999999999t", "8 g",
    "8gib",
]  # fmt: skip
TEXTS = [
    "", " ", ".", "..", "/", "//", "-", "--help", "*", "[", "?", "{}", "%s", "%(x)s", "$HOME", "`id`",
    "a\nb", "\x1b]0;x\x07", "\x7f", "é" * 130, "a" * 256, "a" * 300, "a" * 5000, "../" * 50,
    "../../etc/passwd", "/etc/passwd", "/dev/null", "/proc/self/mem", "/dev/full", "a/b", "a\\b", "a:b",
    ":", "a:", ":b", "=", "a=", "\udc80", "‮", "\u2028", "con", "CON.", "tiny", "tiny.hdf5",
    "data/tiny.hdf5", "folder", "folder/", "file", "file/x", "file.npy", "loop", "dangling", "pipe",
    "x" * 200 + ".npy", "/" * 4000, "a/" * 2500, "nan", "0",
]  # fmt: skip
ORDERS = ["same", "shuffled", "zipf", "zipf:", "zipf:1", *(f"zipf:{number}" for number in NUMBERS), *TEXTS]
OBJECTIVES = ["p99:50ms", "p99:", "p99:0ms", "p100:1s", *(f"p50:{number}ms" for number in NUMBERS), *TEXTS]
MIXES = ["insert:1", "insert:", *(f"insert:{number},delete:1" for number in NUMBERS), *TEXTS]
TIERS = [
    "mini", "2:8", "1:", ":", "all:all", "5m+", *(f"{n}:{n}" for n in NUMBERS),
    *(f"{n}cpus" for n in NUMBERS),
]  # fmt: skip
CPUS = ["0-3", "3-0", "0-", "0-65535," * 2000 + "0", *NUMBERS, *(f"0-{number}" for number in NUMBERS)]
SCALES = ["linear", "log", "symlog", "logit", "a", *(f"a{number}" for number in NUMBERS), *TEXTS]
METRICS = [
    "recall", "qps", "p99", "rel", "epsilon", "build", "indexsize", "distcomps", "qpsatrecall", "nope", "",
]  # fmt: skip
LISTS = ["1", "2,4", "4,2", "1,2,3", *NUMBERS]

N, T, S, F = NUMBERS, TEXTS, SIZES, None  # numbers, texts, sizes, flags
RUN = {
    "--dataset": T, "--count": N, "--definitions": T, "--algorithm": T, "--docker-tag": T, "--force": F,
    "--list-algorithms": F, "--rebuild": F, "--build-only": F, "--runs": N, "--timeout": N, "--batch": F,
    "--max-n-algorithms": N, "--run-disabled": F, "--no-monitoring": F, "--parallelism": N,
    "--load-threads": N,
    "--chunk-size": N, "--memory": S, "--cpuset": CPUS, "--storage": T, "--clients": N, "--max-queries": N,
    "--duration": N, "--query-order": ORDERS, "--distinct-queries": N, "--rate": N, "--slo": OBJECTIVES,
    "--warmup": N, "--target-recall": N, "--debug-single-query": F, "--workload": T,
    "--writers": N, "--write-rate": N, "--write-mix": MIXES, "--loaded": N, "--autovacuum": F,
    "--tiers": TIERS,
    "--tier-method": T, "--experiment": T, "--mini": F, "--scheduler": T,
}  # fmt: skip
# A command, the words that it is always given, and its options.
COMMANDS = {
    "run": (["--local", "--algorithm", "exact", "--dataset", "tiny", "--definitions", "plugins"], RUN),
    "plot": (["--dataset", "tiny"], {
        "--dataset": T, "--count": N, "--limit": N, "-o": T, "-x": METRICS, "-y": METRICS, "-X": SCALES,
        "-Y": SCALES, "--raw": F, "--batch": F, "--target-recall": N, "--no-intervals": F, "--recompute": F,
        "--tiers": F, "--published": T, "--normalise": F, "--monitoring": T,
    }),
    "report": (["-o", "report"], {
        "--dataset": T, "--algorithm": T, "--count": N, "-o": T, "--title": T, "--target-recall": N,
        "--recompute": F, "--experiment": T, "--mini": F,
    }),
    "compare": ([], {
        "": T, "--a": T, "--b": T, "--paired": F, "--list": F, "--dataset": T, "--count": N,
        "--algorithm": T, "--at-recall": N, "--by": METRICS, "--error-rate": N,
        "--fail-if-slower": N, "--fail-if-unsure": F, "--format": T,
    }),
    "create_dataset": ([], {
        "--dataset": T, "--name": T, "--list": F, "--verify": T, "--ground-truth": T, "--convert": T,
        "--train": T, "--test": T, "--queries": N, "--distance": T, "--seed": N, "--in-place": F,
        "--neighbors": N, "--connections": N, "--output": T, "--dtype": T, "--force": F,
    }),
    "create_website": (["--outputdir", "site"], {
        "--plottype": T, "--outputdir": [t for t in T if ".." not in t and set(t) != {"/"}], "--latex": F,
        "--scatter": F,
    }),
    "data_export": (["--output", "out.csv"], {"--output": T, "--recompute": F}),
    "install": (["--definitions", "plugins"], {
        "--algorithm": T, "--proc": N, "--build-arg": T, "--base": T, "--mirror": T,
        "--ca-bundle": T, "--no-cache": F, "--export": T, "--local": F, "--version": T, "--archive": T,
        "--definitions": T,
    }),
    "algorithms.clustering.__main__": (["--dataset", "tiny", "--lists", "2", "-o", "c.npy", "--force"], {
        "--dataset": T, "--lists": LISTS, "--device": T, "-o": T, "--sampling-factor": N, "--iterations": N,
        "--algorithm": T, "--threads": N, "--memory": S, "--seed": N, "--spherical": F,
    }),
}  # fmt: skip


@st.composite
def command_lines(draw):
    """Generate a command and words for it: one to three options, each with a hostile value."""
    command = draw(st.sampled_from(list(COMMANDS)))
    words, options = COMMANDS[command]
    words = list(words)
    for option in draw(st.lists(st.sampled_from(list(options)), min_size=1, max_size=3)):
        values = options[option]
        words += [option] if option else []
        words += [] if values is F else [draw(st.one_of(st.sampled_from(values), st.text(max_size=30)))]
    return command, [word.replace("\0", "") for word in words]
