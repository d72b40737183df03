"""Where the log of a definition lies: logs/DATASET/COUNT/ALGORITHM/ARGS.log."""

from pathlib import Path

from ann_benchmarks.jobs.job import Job

LOG_FOLDER = "logs"


def log_path(job: Job) -> Path:
    """Return the path of a job's log."""
    place = job.path([])
    name = place.name.partition(".")[0] or "no_arguments"
    return Path(LOG_FOLDER, *place.parts[1:-1], f"{name}.log")


def write_log(job: Job, text: str, mode: str = "w") -> str:
    """Keep what went wrong where the user finds it; return the end of the line that says where."""
    path = log_path(job)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, errors="replace") as file:
            file.write(text)
    except OSError:
        return ""
    return f" (see {path})"
