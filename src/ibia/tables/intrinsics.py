"""What compiled functions do with addresses: arrays made of them, and contraction by the name of its machine code.

Imported only where functions are compiled, since it loads the compiler.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

__all__ = ["array_at", "contract_part", "contract_whole", "integers_at"]

_CONTRACT = "ibia_contract"


def _array_maker(element: Any) -> Any:
    """Return the compiled function that makes an array out of an address and a number of entries (of 8 bytes)."""
    array_type = element[::1]

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        array = make_array(array_type)(context, builder)  # type: ignore[no-untyped-call]
        bytes_each = context.get_constant(types.intp, 8)
        populate_array(  # type: ignore[no-untyped-call]
            array,
            data=builder.inttoptr(arguments[0], array.data.type),
            shape=[arguments[1]],
            strides=[bytes_each],
            itemsize=bytes_each,
            meminfo=None,
        )
        return array._getvalue()

    def array_at(_context: Any, _address: Any, _size: Any) -> Any:
        return array_type(types.int64, types.int64), generate

    return intrinsic(array_at)


array_at = _array_maker(types.float64)
integers_at = _array_maker(types.int64)


def _call_contract(context: Any, builder: Any, rows: Any, value: Any, first_axes: Any, others: Any) -> Any:
    """Call the machine code of `contract_blocks` with tables, an array of axes (None: no axes) and the rest."""
    word = ir.IntType(64)
    arrays = [
        make_array(array_type)(context, builder, builder.extract_value(value, place))  # type: ignore[no-untyped-call]
        for place, array_type in enumerate(rows.types[:4])
    ]
    axes, tables = (builder.extract_value(arrays[place].shape, 0) for place in (0, 2))
    inputs = builder.extract_value(value, 4)
    first, count = word(0), word(0)
    if first_axes is not None:
        first, count = builder.ptrtoint(first_axes.data, word), builder.extract_value(first_axes.shape, 0)
    function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, ir.FunctionType(ir.DoubleType(), [word] * 13), _CONTRACT
    )
    places = [builder.ptrtoint(array.data, word) for array in arrays]
    return builder.call(function, [*places, first, axes, tables, count, inputs, *others])


def _contract_whole(_context: Any, rows: Any, _product: Any, _total_wanted: Any) -> Any:
    """Contract all blocks, from compiled code: `contract` with no axes first."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        value, product, total_wanted = arguments
        none, everything = ir.IntType(64)(0), ir.IntType(64)(-1)
        return _call_contract(context, builder, rows, value, None, [product, total_wanted, none, everything])

    return types.float64(rows, types.int64, types.int64), generate


def _contract_part(
    _context: Any, rows: Any, _product: Any, _total_wanted: Any, axes: Any, _start: Any, _stop: Any
) -> Any:
    """Contract some blocks, from compiled code: `contract`."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        value, product, total_wanted, first, start, stop = arguments
        first_axes = make_array(axes)(context, builder, first)  # type: ignore[no-untyped-call]
        return _call_contract(context, builder, rows, value, first_axes, [product, total_wanted, start, stop])

    return types.float64(rows, types.int64, types.int64, axes, types.int64, types.int64), generate


contract_whole: Any = intrinsic(_contract_whole)
contract_part: Any = intrinsic(_contract_part)
