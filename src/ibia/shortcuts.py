"""What the compiler is spared where everything is compiled at once: work whose result is not needed, or known already.

Half of the time goes into its own front end, which is written in Python, and much of the rest into code that the
optimiser takes away again. Parts of the compiler are replaced, so this is for the processes that do nothing else
(``compiling.py``), and refuses a compiler that lacks what it replaces.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from numba import _dynfunc, types  # type: ignore[attr-defined]
from numba.core import cgutils, codegen, cpu, event, ir, postproc, transforms
from numba.core.compiler import Flags
from numba.core.runtime.context import NRTContext
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import NopythonRewrites
from numba.core.typing.context import BaseContext
from numba.np import arrayobj

__all__ = ["take_shortcuts"]


@cache
def take_shortcuts() -> Callable[[Any], None]:
    """Change the compiler, and return its function that optimises a library."""
    optimise: Callable[[Any], None] = codegen.CPUCodeLibrary._optimize_final_module
    changes: list[tuple[Any, str, Callable[..., Any]]] = [
        # All that is optimised and turned into machine code is a whole module.
        (codegen.CPUCodeLibrary, "_optimize_functions", _keep_layout),
        (codegen.CPUCodeLibrary, "_optimize_final_module", _nothing),
        (codegen.JITCodeLibrary, "_finalize_specific", _nothing),
        (codegen.JITCPUCodegen, "_add_module", _nothing),
        (codegen.CPUCodegen, "_check_llvm_bugs", _nothing),
        (cpu.CPUContext, "get_executable", _make_function),
        # Nobody listens, and no function has expressions of whole arrays to be put together.
        (event, "broadcast", _nothing),
        (NopythonRewrites, "run_pass", lambda rewrites, state: False),
        # All flags have the same hash anyway, and to find it, or to compare two, takes long.
        (Flags, "__hash__", lambda flags: 0),
        (Flags, "__eq__", _same_flags),
        (BaseContext, "_resolve_user_function_type", _remembering(BaseContext._resolve_user_function_type)),
        (cpu.CPUContext, "get_abi_sizeof", cache(cpu.CPUContext.get_abi_sizeof)),
        (ir.Inst, "_rec_list_vars", _listing(ir.Inst._rec_list_vars)),
        (postproc.PostProcessor, "run", _processing(postproc.PostProcessor.run)),
        (NRTContext, "get_meminfos", _owners),
        (arrayobj, "make_array", _array_maker(arrayobj.make_array)),
        *_structures(cgutils.ValueStructProxy),
    ]
    for owner, name, replacement in changes:
        if not hasattr(owner, name):
            raise RuntimeError(f"the compiler has no {name}: another version, perhaps")
        setattr(owner, name, replacement)
    return optimise


def _nothing(*_arguments: Any) -> None:
    pass


def _keep_layout(library: Any, module: Any) -> None:
    module.data_layout = library._codegen._data_layout


def _make_function(_context: Any, library: Any, names: Any, environment: Any) -> Any:
    # Of no use but as a name: there is no machine code yet.
    library._ensure_finalized()
    return _dynfunc.make_function(names.lookup_module(), names.qualname, "", 1, environment, (library,))


def _same_flags(flags: Any, other: Any) -> bool:
    if flags is other or flags._values == other._values:
        return True
    return all(getattr(flags, name) == getattr(other, name) for name in flags._values.keys() | other._values.keys())


def _remembering(resolve: Any) -> Any:
    """Return the compiler's function that finds the types of an operator, which it does for every expression anew."""
    found: dict[Any, Any] = {}

    def remembered(context: Any, function: Any, arguments: Any, keywords: Any, literals: Any = None) -> Any:
        # Methods belong to an object, and functions of ours may still be in the making.
        known = isinstance(function, types.Function) or not isinstance(function, (str, types.Type))
        if keywords or not known:
            return resolve(context, function, arguments, keywords, literals)
        key = function, tuple(arguments), ConfigStack.top_or_none()  # type: ignore[no-untyped-call]
        if key not in found:
            result = resolve(context, function, arguments, keywords, literals)
            if result is None:
                return None
            found[key] = result
        return found[key]

    return remembered


def _listing(list_variables: Any) -> Any:
    """Return the compiler's function that lists the variables in a value; most values are none, and easily told."""
    without = frozenset({str, int, bool, type(None), ir.Loc})

    def listed(instruction: Any, value: Any) -> Any:
        return [] if type(value) in without else list_variables(instruction, value)

    return listed


def _processing(run: Any) -> Any:
    """Return the compiler's function that brings a function into shape, which finds what lives where every time.

    That is for generators only, and is found later where it is asked for.
    """

    def processed(processor: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        function = processor.func_ir
        if function.is_generator:
            run(processor, emit_dels, extend_lifetimes)
            return
        function.blocks = transforms.canonicalize_cfg(function.blocks)  # type: ignore[no-untyped-call]
        function.variable_lifetime = postproc.VariableLifetime(function.blocks)  # type: ignore[no-untyped-call]
        function.generator_info = None
        if emit_dels:
            processor._insert_var_dels(extend_lifetimes=extend_lifetimes)

    return processed


@cache
def _owns_memory(model: Any) -> bool:
    return bool(model.contains_nrt_meminfo())


def _owners(runtime: Any, builder: Any, value_type: Any, value: Any) -> list[Any]:
    """Return what counts the references to the memory of a value, and take nothing else out of it."""
    model = runtime._context.data_model_manager[value_type]
    if not _owns_memory(model):
        return []
    found = [(value_type, model.get_nrt_meminfo(builder, value))] if model.has_nrt_meminfo() else []
    for part_type, part in model.traverse(builder):
        if _owns_memory(runtime._context.data_model_manager[part_type]):
            found.extend(_owners(runtime, builder, part_type, part(value)))
    return found


def _array_maker(make_array: Any) -> Any:
    """Return the compiler's function that makes the class of an array's structure, and makes it anew each time."""

    @cache
    def made(array_type: Any) -> Any:
        if type(array_type) is not types.Array:
            return make_array(array_type)
        return cgutils.create_struct_proxy(array_type)  # type: ignore[no-untyped-call]

    return made


def _structures(proxy: Any) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Return what makes a structure of a value put it into memory only if its address is asked for."""
    make, get, whole = proxy.__init__, proxy.__getitem__, proxy._getvalue
    make_memory, attribute = proxy._make_refs, proxy.__getattr__

    def initialise(self: Any, context: Any, builder: Any, value: Any = None, ref: Any = None) -> None:
        if value is None or ref is not None or type(self)._make_refs is not make_memory:
            make(self, context, builder, value, ref)
            return
        self._context, self._builder = context, builder
        self._datamodel = context.data_model_manager[self._fe_type]
        self._be_type = self._get_be_type(self._datamodel)
        self._held = value
        self._made_in = builder.block
        self._made_after = builder.block.instructions[-1] if builder.block.instructions else None

    def get_attribute(self: Any, name: str) -> Any:
        if name not in ("_value", "_outer_ref"):
            return attribute(self, name)
        builder = self._builder
        block, first = builder.block, builder.function.entry_basic_block
        builder.position_at_start(first)
        self._value = self._outer_ref = builder.alloca(self._be_type)
        # It is filled where the structure was made, since this may be a branch that is not taken.
        before = self._made_after or (self._value if self._made_in is first else None)
        if before is None:
            builder.position_at_start(self._made_in)
        else:
            builder.position_after(before)
        builder.store(self._held, self._value)
        builder.position_at_end(block)
        return self._value

    def get_item(self: Any, index: int) -> Any:
        in_memory = "_value" in vars(self)
        return get(self, index) if in_memory else self._builder.extract_value(self._held, index)

    def get_whole(self: Any) -> Any:
        return whole(self) if "_value" in vars(self) else self._held

    return [
        (proxy, "__init__", initialise),
        (proxy, "__getattr__", get_attribute),
        (proxy, "__getitem__", get_item),
        (proxy, "_getvalue", get_whole),
    ]
