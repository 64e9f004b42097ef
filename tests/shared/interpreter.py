"""Triton's interpreter without work that changes nothing, most of the time of GPU tests on a CPU.

It replaces the functions of `triton.language` when a kernel begins, and again whenever the kernel
calls a function of its own, thousands of times in a small product. It computes every sum,
difference and product of integers once more in 64 bits, to compare it with the limits of its type,
and then drops the comparison, since nobody asked for assertions. It makes the table of NumPy's
types anew for every operation, and the shape of every result.

All names are private: with a Triton that has others, tests only take longer.
"""

from __future__ import annotations

from dataclasses import replace
from inspect import ismodule


class Untouched:
    """What is handed out where there is nothing to put back."""

    def restore(self) -> None:
        """Nothing."""


def work_less(interpreter) -> None:
    """Leave out what is computed for nothing, or again."""
    options = getattr(getattr(interpreter, "interpreter_builder", None), "options", None)
    if hasattr(options, "sanitize_overflow") and not getattr(options, "debug", True):
        interpreter.interpreter_builder.options = replace(options, sanitize_overflow=False)
    if hasattr(interpreter, "_patch_lang"):
        replace_functions_once(interpreter)
    if hasattr(interpreter, "_get_np_dtype"):
        look_types_up_once(interpreter)
    make_types_once(interpreter.tl.core)


def replace_functions_once(interpreter) -> None:
    """Let the interpreter replace functions when a kernel begins, and not again."""
    replace_all = interpreter._patch_lang
    languages, replaced, seen_in = (interpreter.tl, interpreter.tl.core), set(), {}

    def replace_once(function):
        names = function.__globals__
        if id(names) not in seen_in:
            seen = {x.__name__ for x in names.values() if ismodule(x) and x in languages}
            seen_in[id(names)] = seen, names
        seen = seen_in[id(names)][0]
        if seen <= replaced:
            return Untouched()
        before, scope = set(replaced), replace_all(function)
        put_back = scope.restore
        replaced.update(seen)

        def restore():
            put_back()
            replaced.clear()
            replaced.update(before)

        scope.restore = restore
        return scope

    interpreter._patch_lang = replace_once


def look_types_up_once(interpreter) -> None:
    """Keep NumPy's type of each of Triton's: numbers, pointers, and blocks of them."""
    look_up, known = interpreter._get_np_dtype, {}

    def kept(kind):
        name = kind.scalar.name
        if name not in known:
            known[name] = look_up(kind.scalar)
        return known[name]

    interpreter._get_np_dtype = kept


def make_types_once(core) -> None:
    """Keep what blocks of a type share: their shape, and the types of other numbers in it."""
    begin, change = core.tensor.__init__, core.block_type.with_element_ty

    def initialise(self, handle, type):
        like = type.__dict__.get("_like")
        if like is None:
            begin(self, handle, type)
            type._like = {name: x for name, x in self.__dict__.items() if name != "handle"}
        else:
            self.__dict__.update(like)
            self.handle = handle

    def with_element_ty(self, scalar_ty):
        known = self.__dict__.setdefault("_others", {})
        if scalar_ty.name not in known:
            known[scalar_ty.name] = change(self, scalar_ty)
        return known[scalar_ty.name]

    core.tensor.__init__, core.block_type.with_element_ty = initialise, with_element_ty
