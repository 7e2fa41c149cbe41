"""Downloads: only when asked, checked, whole or not at all. Everything is served from this machine."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from emi_bench import data
from emi_bench.data import downloading
from emi_bench.data.catalogue import get_source
from emi_bench.errors import UserError
from tests.data.fakes import FakeCifar


class _Handler(http.server.SimpleHTTPRequestHandler):
    cut = False  # promise everything, send half

    def log_message(self, format: str, *args: object) -> None:
        pass

    def copyfile(self, source: object, outputfile: object) -> None:
        content = source.read()
        outputfile.write(content[: len(content) // 2] if self.cut else content)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a fake CIFAR-10 archive."""
    folder = tmp_path / "server"
    folder.mkdir()
    fake = FakeCifar(folder)
    fake.believe(monkeypatch)
    handler = functools.partial(_Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield f"http://127.0.0.1:{server.server_port}/{fake.archive.name}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def test_download_brings_the_archive_and_shows_progress(
    served: str, root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    where = data.download("cifar10", root, url=served)
    assert where == str(root / "cifar-10-python.tar.gz")
    assert "100.0%" in capfd.readouterr().err
    assert [p.name for p in root.iterdir()] == ["cifar-10-python.tar.gz"]
    assert data.load("cifar10", root).n_classes == 10


def test_quiet_download_prints_nothing(served: str, root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data.download("cifar10", root, url=served, progress=False)
    assert capfd.readouterr() == ("", "")


def test_address_may_come_from_the_environment(served: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMI_BENCH_URL_CIFAR10", served)
    assert data.load("cifar10", root, download=True).n_classes == 10


def test_local_file_may_stand_for_the_address(served: str, root: Path, tmp_path: Path) -> None:
    archive = tmp_path / "server" / "cifar-10-python.tar.gz"
    for i, address in enumerate((str(archive), archive.as_uri())):
        data.download("cifar10", root / str(i), url=address)
        assert data.verify("cifar10", root / str(i)).ok
    archive.write_bytes(b"other")
    with pytest.raises(UserError, match="it was thrown away"):
        data.download("cifar10", root / "other", url=str(archive))


def test_nothing_is_downloaded_unasked(served: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "_fetch", lambda *told: pytest.fail("went to the network"))
    with pytest.raises(UserError, match="not on this machine"):
        data.load("cifar10", root)
    assert not data.verify("cifar10", root).ok
    data.describe(root)
    assert not root.exists()


def test_whole_archive_is_not_fetched_twice(served: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data.download("cifar10", root, url=served, progress=False)
    monkeypatch.setattr(downloading, "_fetch", lambda *told: pytest.fail("went to the network"))
    data.download("cifar10", root, progress=False)
    data.load("cifar10", root, download=True)


def test_damaged_archive_is_healed_by_a_download(served: str, root: Path) -> None:
    data.download("cifar10", root, url=served, progress=False)
    archive = root / "cifar-10-python.tar.gz"
    archive.write_bytes(archive.read_bytes()[:500])
    assert not data.verify("cifar10", root).ok
    data.download("cifar10", root, url=served, progress=False)
    assert data.verify("cifar10", root).ok


def test_other_content_is_thrown_away(served: str, root: Path, tmp_path: Path) -> None:
    archive = tmp_path / "server" / "cifar-10-python.tar.gz"
    archive.write_bytes(archive.read_bytes() + b"more")
    with pytest.raises(UserError, match="it was thrown away") as error:
        data.download("cifar10", root, url=served, progress=False)
    assert "EMI_BENCH_URL_CIFAR10" in error.value.hint
    assert not list(root.iterdir())


def test_connection_that_ends_early_leaves_nothing(served: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Handler, "cut", True)
    with pytest.raises(UserError, match=r"came from http://127.* is cut short"):
        data.download("cifar10", root, url=served, progress=False)
    assert not list(root.iterdir())


@pytest.mark.parametrize("bad", ["http://127.0.0.1:9/x.tar.gz", "no/such/file.tar.gz", "gopher://x/y"])
def test_address_without_an_answer_is_a_clear_error(bad: str, served: str, root: Path) -> None:
    with pytest.raises(UserError, match="could not be downloaded from") as error:
        data.download("cifar10", root, url=bad, progress=False)
    assert str(root) in error.value.hint


def test_missing_page_is_a_clear_error(served: str, root: Path) -> None:
    with pytest.raises(UserError, match="404"):
        data.download("cifar10", root, url=served + "x", progress=False)


def test_too_little_room_is_noticed_before_the_transfer(
    served: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100))
    with pytest.raises(UserError, match="0 MB free"):
        data.download("cifar10", root, url=served, progress=False)
    assert not list(root.iterdir())


def test_digits_need_no_download(root: Path) -> None:
    assert data.download("digits", root) == "inside scikit-learn"
    assert not root.exists()


def test_tiny_imagenet_is_the_published_archive() -> None:
    remote = get_source("tinyimagenet").remote
    assert remote is not None
    assert remote.url == "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
    assert remote.md5 == "90528d7ca1a48142e341f4ef8d21d0de"
