"""Methods of installed packages, by the entry point group `emi_bench.methods`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import emi_bench.methods as methods
from emi_bench.errors import UserError
from emi_bench.methods import get_method, method_names
from emi_bench.methods.er import ER
from emi_bench.methods.finetune import FineTune
from tests.synthetic import Entry


class Installed(ER):
    name = "installed"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    def entries(*found: Entry) -> None:
        monkeypatch.setattr(methods, "entry_points", lambda group: list(found))
        methods._built_in.cache_clear()

    yield entries
    monkeypatch.undo()
    methods._built_in.cache_clear()


def test_an_installed_package_adds_a_method(install: Callable[..., None]) -> None:
    install(Entry("installed", Installed))
    assert get_method("installed") is Installed
    assert "installed" in method_names()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (Entry("broken", ImportError("no module named theirs")), "does not load: ImportError: no module named theirs"),
        (Entry("broken", "not a class"), "is not a Method"),
        (Entry("broken", dict), "is not a Method"),
        (Entry("broken", Installed), "calls itself 'installed'"),
        (Entry("finetune", FineTune), "finetune is a method of emi-bench"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_broken_one_is_named_and_spares_the_others(install: Callable[..., None], entry: Entry, why: str) -> None:
    install(entry, Entry("installed", Installed))
    with pytest.warns(UserWarning, match=f"'{entry.name}' of the installed package their-package") as told:
        assert get_method("er") is ER
    assert why in str(told[0].message)
    assert get_method("installed") is Installed
    with pytest.raises(UserError, match="unknown method"):
        get_method("broken")
