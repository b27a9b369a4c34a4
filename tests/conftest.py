"""Fixtures of all tests, and their environment: a hub on loopback and no other network.

The Hub clients read HF_ENDPOINT and HF_HOME once, when they are imported, and subprocesses read
them from the environment. So both are set here, before any test module is imported: one server and
one temporary folder for each test process (each pytest-xdist worker is one). The ``hub`` fixture
empties both for every test.
"""

import gc
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from loopback_hub import Hub

HUB = Hub()
HF_HOME = Path(tempfile.mkdtemp(prefix="hf-home-"))
SETTINGS = {
    "HF_ENDPOINT": HUB.url,
    "HF_HOME": str(HF_HOME),
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_ETAG_TIMEOUT": "5",
    "HF_HUB_DOWNLOAD_TIMEOUT": "5",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "OMP_NUM_THREADS": "1",  # torch's threads would wait for each other between test processes
}
FOREIGN = ("HF_", "HUGGING_FACE_", "HUGGINGFACE_", "TRANSFORMERS_")  # a developer's own settings
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def _set_environment() -> None:
    imported = {"huggingface_hub", "datasets", "transformers"} & set(sys.modules)
    if imported:
        raise RuntimeError(
            f"{sorted(imported)} were imported before tests/conftest.py and would talk to the "
            "real Hub; find the plugin or option that imports them and switch it off"
        )
    for name in list(os.environ):
        if name.startswith(FOREIGN) or name.lower() in PROXIES:
            del os.environ[name]
    os.environ.update(SETTINGS)


def _only_loopback(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook: refuse connections and name look-ups that would leave this machine."""
    if event in ("socket.connect", "socket.sendto"):
        match arguments[1]:  # other families have other addresses: a path, numbers
            case (str(host), *_) if not _is_here(host):
                raise ConnectionRefusedError(f"tests have no network; refused to reach {host}")
    elif event == "socket.getaddrinfo":
        host = arguments[0]
        if not (_is_here(host) or _as_address(host)):  # an address needs no look-up
            raise socket.gaierror(socket.EAI_NONAME, f"tests have no network to look up {host}")


def _is_here(host: str | bytes | None) -> bool:
    address = _as_address(host)
    if address is not None:
        return address.is_loopback or address.is_unspecified
    return host in (None, "", b"", "localhost", b"localhost", OWN_NAME, OWN_NAME.encode())


def _as_address(host: str | bytes | None) -> IPv4Address | IPv6Address | None:
    text = host.decode() if isinstance(host, bytes) else host
    try:
        return ip_address((text or "").partition("%")[0])
    except ValueError:
        return None


hypothesis.settings.register_profile("project", deadline=None)  # machines are shared
hypothesis.settings.load_profile("project")
OWN_NAME = socket.gethostname()
gc.disable()  # until all tests are imported: the trees of their modules are garbage without cycles
_set_environment()
sys.addaudithook(_only_loopback)


def pytest_collection_finish() -> None:
    """What was imported stays; not to look through it again halves the time of each collection."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first, so that no process ends with one of them alone."""
    items.sort(key=lambda item: not item.path.name.startswith("test_notebook"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each process keeps neighbouring tests, so a module's fixtures are seldom made twice."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_unconfigure() -> None:
    HUB.close()
    shutil.rmtree(HF_HOME, ignore_errors=True)


def _forget_downloads() -> None:
    """Empty HF_HOME, and the listings that the Hub's file system keeps in memory."""
    for entry in HF_HOME.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    file_systems = sys.modules.get("huggingface_hub.hf_file_system")
    if file_systems is not None:
        file_systems.HfFileSystem.clear_instance_cache()


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole offline sample, made once in a process; tests change only copies of it."""
    from download_data import DATASETS, make_sample

    folder = tmp_path_factory.mktemp("sample")
    assert all(outcome.status.good for outcome in make_sample(DATASETS, folder))
    return folder


@pytest.fixture
def hub() -> Iterator[Hub]:
    """An empty hub, which HF_ENDPOINT names, and an empty HF_HOME."""
    HUB.reset()
    _forget_downloads()
    yield HUB
    HUB.reset()
