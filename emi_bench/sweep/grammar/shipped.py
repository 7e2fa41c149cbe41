"""The sweeps that come with the package, and how a bare name finds one."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[2]
SUFFIXES = (".yaml", ".yml")


def shipped() -> dict[str, Path]:
    """Name -> file. The build takes the checkout's folder `sweeps/` into the package; a checkout reads it in place.

    >>> {"table1", "demo"} <= set(shipped())
    True
    """
    inside, beside = _PACKAGE / "sweeps", _PACKAGE.parent / "sweeps"
    return {file.stem: file for file in sorted((inside if inside.is_dir() else beside).glob("*.yaml"))}


def sweep_path(given: str | Path) -> Path:
    """The file that is meant: a path as it is, a bare name looked up here first, then among the shipped ones.

    What is not there comes back as it was given, for whoever reads it to say so.

    >>> sweep_path("table1") == shipped()["table1"], sweep_path("a/b.yaml"), sweep_path("absent")
    (True, PosixPath('a/b.yaml'), PosixPath('absent'))
    """
    path = Path(given)
    if path.name != str(given) or path.suffix in SUFFIXES or path.is_file():
        return path
    here = [found for suffix in SUFFIXES if (found := Path(f"{given}{suffix}")).is_file()]
    return here[0] if here else shipped().get(str(given), path)


def sweep_word(path: Path) -> str:
    """How a user names a sweep file: a shipped one by its name, where that finds it.

    >>> sweep_word(shipped()["demo"]), sweep_word(Path("a/b.yaml"))
    ('demo', 'a/b.yaml')
    """
    return path.stem if path == shipped().get(path.stem) == sweep_path(path.stem) else str(path)
