"""Methods of installed packages, by the entry point group `emi_bench.methods`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import emi_bench.methods as methods
from emi_bench.errors import UserError
from emi_bench.methods import get_method, method_names
from emi_bench.methods.er import ER
from emi_bench.methods.finetune import FineTune


class Installed(ER):
    name = "installed"


class _Dist:
    name = "their-package"


class _Entry:
    dist = _Dist

    def __init__(self, name: str, target: object) -> None:
        self.name, self.target = name, target

    def load(self) -> object:
        if isinstance(self.target, Exception):
            raise self.target
        return self.target


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    def entries(*found: _Entry) -> None:
        monkeypatch.setattr(methods, "entry_points", lambda group: list(found))
        methods._built_in.cache_clear()

    yield entries
    monkeypatch.undo()
    methods._built_in.cache_clear()


def test_an_installed_package_adds_a_method(install: Callable[..., None]) -> None:
    install(_Entry("installed", Installed))
    assert get_method("installed") is Installed
    assert "installed" in method_names()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (_Entry("broken", ImportError("no module named theirs")), "does not load: ImportError: no module named theirs"),
        (_Entry("broken", "not a class"), "is not a Method"),
        (_Entry("broken", dict), "is not a Method"),
        (_Entry("broken", Installed), "calls itself 'installed'"),
        (_Entry("finetune", FineTune), "finetune is a method of emi-bench"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_broken_one_is_named_and_spares_the_others(install: Callable[..., None], entry: _Entry, why: str) -> None:
    install(entry, _Entry("installed", Installed))
    with pytest.warns(UserWarning, match=f"'{entry.name}' of the installed package their-package") as told:
        assert get_method("er") is ER
    assert why in str(told[0].message)
    assert get_method("installed") is Installed
    with pytest.raises(UserError, match="unknown method"):
        get_method("broken")
