"""Triton's interpreter without work that it repeats: a third of the time of GPU tests on a CPU.

It replaces the functions of `triton.language` when a kernel begins, and again whenever the kernel
calls a function of its own, thousands of times in a small product.
"""

from __future__ import annotations

from inspect import ismodule


class Untouched:
    """What is handed out where there is nothing to put back."""

    def restore(self) -> None:
        """Nothing."""


def replace_functions_once(interpreter) -> None:
    """Let the interpreter replace functions when a kernel begins, and not again.

    The name is private: with a Triton that has another, tests only take longer.
    """
    replace = getattr(interpreter, "_patch_lang", None)
    if replace is None:
        return
    languages, replaced = (interpreter.tl, interpreter.tl.core), set()

    def replace_once(function):
        seen = {x.__name__ for x in function.__globals__.values() if ismodule(x) and x in languages}
        if seen <= replaced:
            return Untouched()
        before, scope = set(replaced), replace(function)
        put_back = scope.restore
        replaced.update(seen)

        def restore():
            put_back()
            replaced.clear()
            replaced.update(before)

        scope.restore = restore
        return scope

    interpreter._patch_lang = replace_once
