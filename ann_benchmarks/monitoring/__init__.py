"""What the machine and the server do while a run goes on, by phase: sampled, stored with each point, read."""

from ann_benchmarks.monitoring.monitor import Monitor, NoMonitor, Phases
from ann_benchmarks.monitoring.stored import Monitored, read_monitoring

__all__ = ["Monitor", "Monitored", "NoMonitor", "Phases", "read_monitoring"]
