"""Arrays without reference counts, for loops that take them from NamedTuples.

Each time a kernel reads a field of a NamedTuple of arrays, Numba counts a
reference up and down again, atomically: two threads that work on different
chunks of one array then fight for its counter. A borrowed array has no counter.
The caller must keep the real one alive, which engines do.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


@intrinsic
def borrowed(typingctx, arrays):
    """The same NamedTuple, with uncounted arrays; other fields as they are."""

    def codegen(context, builder, signature, args):
        fields = []
        for k, kind in enumerate(signature.args[0].types):
            field = builder.extract_value(args[0], k)
            if isinstance(kind, types.Array):
                array = make_array(kind)(context, builder, field)
                array.meminfo = ir.Constant(array.meminfo.type, None)
                field = array._getvalue()
            fields.append(field)
        return context.make_tuple(builder, signature.return_type, fields)

    return arrays(arrays), codegen
