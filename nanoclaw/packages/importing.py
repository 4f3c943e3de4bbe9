"""Imports Python modules out of a package in memory: the bytes that were hashed are those that run, and no .pyc is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import ExecutionLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from nanoclaw.packages.reading import Package


def imported(name: str, package: Package, main: str, folder: Path) -> ModuleType:
    """The module `name`, whose text is the file `main`; where that is an __init__.py, the package's other files are its
    submodules. `folder` is what tracebacks show."""
    importer = PackageImporter(name, package, main, folder)
    sys.meta_path[:] = [one for one in sys.meta_path if not (isinstance(one, PackageImporter) and one.name == name)]
    for known in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
        del sys.modules[known]
    sys.meta_path.insert(0, importer)
    return import_module(name)


class PackageImporter(ExecutionLoader):
    """Finder and loader of one package."""

    def __init__(self, name: str, package: Package, main: str, folder: Path) -> None:
        self.name, self._package, self._main, self._folder = name, package, main, folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if (file := self._file(fullname)) is None:
            return None
        spec = ModuleSpec(fullname, self, origin=str(self._folder / file), is_package=self.is_package(fullname))
        spec.has_location = True  # for tracebacks
        return spec

    def is_package(self, fullname: str) -> bool:
        return (self._file(fullname) or "").endswith("__init__.py")

    def get_filename(self, fullname: str) -> str:
        return str(self._folder / (self._file(fullname) or ""))

    def get_source(self, fullname: str) -> str | None:
        from importlib.util import decode_source

        file = self._file(fullname)
        return decode_source(self._package.files[file].data) if file else None

    def get_data(self, path: str) -> bytes:
        """A file of the package as it was read, for pkgutil.get_data."""
        found = self._package.files.get(Path(path).relative_to(self._folder).as_posix())
        if found is None:
            raise FileNotFoundError(path)
        return found.data

    def _file(self, fullname: str) -> str | None:
        """The file of a module, None for what is not a module of this package."""
        if fullname == self.name:
            return self._main
        if self._main != "__init__.py" or not fullname.startswith(f"{self.name}."):
            return None
        stem = fullname.removeprefix(f"{self.name}.").replace(".", "/")
        return next((one for one in (f"{stem}/__init__.py", f"{stem}.py") if one in self._package.files), None)
