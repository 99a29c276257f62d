"""What makes a plain function a kernel: numba compiles it once, and keeps it where another installation finds it.

Numba keeps compiled code beside the source, and looks at the file of a function alone. Here it lies in the user's cache
folder (or in NUMBA_CACHE_DIR) under a digest of all kernels of a folder: what is installed anew is not compiled anew,
and kernels may call those in other files of their folder.
"""

from __future__ import annotations

import gc
import hashlib
import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import intrinsic
from numba.misc.appdirs import AppDirs

# Numbers without a sign, for indices: one that may be negative costs a test.
ZERO, ONE, TWO = np.uintp(0), np.uintp(1), np.uintp(2)


class _Compiler(Compiler):
    def compile_extra(self, function):
        """Compile with no search for garbage: it would take a sixth of the time, and find little."""
        collects = gc.isenabled()
        gc.disable()
        try:
            result = super().compile_extra(function)
        finally:
            if collects:
                gc.enable()
        if not self.state.flags.nrt and "array(" in str(result.signature.return_type):
            raise TypeError(f"{function.__name__} returns an array, which nobody counts: give it to be written to")
        return result


class _Part(JITCodeLibrary):
    """Code that never runs by itself: it is optimised and made machine code where it has become a part of a kernel."""

    def finalize(self):
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, _name):
        return 0

    @property
    def codegen(self):
        return self

    def set_env(self, name, env):
        """Leave what only functions that make Python objects ask for."""


class _PartCompiler(_Compiler):
    def __init__(self, typing, target, library, *rest):
        super().__init__(typing, target, library or _Part(target.codegen(), "part"), *rest)


# Division is NumPy's, which needs no test for zero.
OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def kernel(function, *, makes_arrays=False):
    """Compile a function on arrays when it is first called.

    Where it makes none, nobody counts who holds which: there is less to compile.
    """
    compiled = nb.njit(function, pipeline_class=_Compiler, _nrt=makes_arrays, **OPTIONS)
    if isinstance(compiled, nb.core.dispatcher.Dispatcher):  # a plain function where numba is switched off
        with suppress(RuntimeError):  # nowhere to write: compiled in every process
            compiled._cache = _Cache(function)
    return compiled


def inner(function):
    """Compile a function that kernels alone call, and that makes no arrays: it becomes part of them."""
    return nb.njit(function, pipeline_class=_PartCompiler, no_cpython_wrapper=True, _nrt=False, **OPTIONS)


def _add_pair(sums, at, values, which):
    """Add two neighbours, from a place of one contiguous array of floats, to two from a place of another.

    Places are counted along all axes. Compiled it is one addition, of which LLVM by itself makes two.
    """
    for c in range(2):
        sums.flat[at + c] += values.flat[which + c]


def _emit_add_pair(_typing, sums, at, values, which):
    if {(a.layout, a.dtype) for a in (sums, values)} != {("C", nb.float64)}:
        raise TypeError("add_pair takes contiguous arrays of floats")  # of others it would add the wrong places

    def emit(context, builder, signature, arguments):
        pair = ir.VectorType(ir.DoubleType(), 2)

        def find(i):
            array = cgutils.create_struct_proxy(signature.args[i])(context, builder, arguments[i])
            return builder.bitcast(builder.gep(array.data, [arguments[i + 1]]), pair.as_pointer())

        to, end = find(0), find(2)
        total = builder.fadd(builder.load(to, align=8), builder.load(end, align=8))
        builder.store(total, to, align=8)
        return context.get_dummy_value()

    return nb.void(sums, at, values, which), emit


def _fetch(array, at):
    """Ask for a place of an array that is soon read: the memory answers while other work is done."""


def _emit_fetch(_typing, array, at):
    def emit(context, builder, signature, arguments):
        data = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0]).data
        place, number = builder.gep(data, [arguments[1]]), ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        ask = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        builder.call(ask, [place, *(ir.Constant(number, n) for n in (0, 3, 1))])  # to read, to keep, data
        return context.get_dummy_value()

    return nb.void(array, at), emit


# Plain functions where numba is switched off.
plain = getattr(nb.config, "DISABLE_JIT", False)
add_pair: Any = _add_pair if plain else intrinsic(_emit_add_pair)
fetch: Any = _fetch if plain else intrinsic(_emit_fetch)


@lru_cache
def _digest(file):
    """Tell one state of the kernels beside a file, and of what compiles them, from any other."""
    folder = Path(file).parent
    sources = sorted(folder.glob("*.py")) if folder.name == "kernels" else [Path(file)]
    parts = [nb.__version__, llvmlite.__version__, np.__version__, *(s.read_text("utf-8") for s in sources)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class _Locator(_CacheLocator):
    """Where the compiled code of a function lies."""

    def __init__(self, function, file):
        self._line, self._stamp = function.__code__.co_firstlineno, _digest(file)
        self._py_file = file  # numba asks for it where it warns
        root = nb.config.CACHE_DIR or os.path.join(AppDirs("simile", appauthor=False).user_cache_dir, "kernels")
        self._path = os.path.join(root, self._stamp)

    def get_cache_path(self):
        return self._path

    def get_source_stamp(self):
        return self._stamp

    def get_disambiguator(self):
        return str(self._line)

    @classmethod
    def from_function(cls, function, file):
        try:
            locator = cls(function, file)
            locator.ensure_cache_path()
        except OSError:  # no source, or no folder to write to
            return None
        return locator


class _CacheOfOne(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012


class _Cache(FunctionCache):
    _impl_class = _CacheOfOne
