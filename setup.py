"""The build takes the sweeps of the checkout into the package; all else is in pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithSweeps(build_py):
    """An editable install reads `sweeps/` in place, so that nothing is copied there."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "emi_bench" / "sweeps"
            self.mkpath(str(target))
            for file in sorted(Path("sweeps").glob("*.yaml")):
                self.copy_file(str(file), str(target / file.name))


setup(cmdclass={"build_py": WithSweeps})
