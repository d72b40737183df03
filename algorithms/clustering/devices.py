"""Which device computes."""

from ..postgres import machine
from .cpu import Cpu
from .device import Device
from .errors import ClusteringError
from .faiss_device import Faiss
from .settings import Settings


def open_device(settings: Settings) -> Device:
    """Return the device that the settings name; ClusteringError says what it lacks."""
    threads = settings.threads or machine.cores()
    if settings.device == "cpu":
        return Cpu(threads)
    if settings.device == "faiss":
        if settings.algorithm != "lloyd":
            raise ClusteringError(
                f"device 'faiss' has no {settings.algorithm} k-means: use lloyd, or device cpu"
            )
        return Faiss(threads)
    if settings.device == "gpu":
        return _first_gpu(settings, threads)
    return _gpu(settings.device, settings, threads)


def _first_gpu(settings: Settings, threads: int) -> Device:
    missing = []
    for name in ("torch", "cupy"):
        try:
            return _gpu(name, settings, threads)
        except ClusteringError as error:
            missing.append(str(error))
    raise ClusteringError("; ".join(missing))


def _gpu(name: str, settings: Settings, threads: int) -> Device:
    from .gpu import Gpu

    if name == "torch":
        from .torch_arrays import open_torch

        return Gpu(open_torch(), settings.device_memory)
    from .cupy_arrays import open_cupy

    return Gpu(open_cupy(), settings.device_memory)
