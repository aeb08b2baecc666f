"""NamedTuples of arrays passed by reference.

Numba passes a NamedTuple by value: the engine's sixty arrays are five hundred
words on the stack of every call, and LLVM takes most of a minute to compile
that. And each field that is read counts an array's references up and down,
atomically, so that two threads fight for the counter. A reference is one
pointer to a copy of the tuple whose arrays are not counted. It lives as long as
the function that made it, and the caller must keep the arrays alive, which
engines do.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, register_model
from numba.np.arrayobj import make_array


class Reference(types.Type):
    """A pointer to a NamedTuple; its fields are read as the tuple's are."""

    def __init__(self, target):
        self.target = target
        super().__init__(name=f"Reference({target})")


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        target = dmm.lookup(fe_type.target).get_value_type()
        super().__init__(dmm, fe_type, target.as_pointer())


@infer_getattr
class _ReferenceAttributes(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference, name):
        target = reference.target
        return target.types[target.fields.index(name)] if name in target.fields else None


@lower_getattr_generic(Reference)
def _read_field(context, builder, kind, value, name):
    return builder.load(cgutils.gep_inbounds(builder, value, 0, kind.target.fields.index(name)))


@intrinsic
def referenced(typingctx, fields):
    """A reference to a NamedTuple, with uncounted arrays."""

    def codegen(context, builder, signature, args):
        value = args[0]
        for k, kind in enumerate(signature.args[0].types):
            if isinstance(kind, types.Array):
                array = make_array(kind)(context, builder, builder.extract_value(value, k))
                array.meminfo = ir.Constant(array.meminfo.type, None)
                value = builder.insert_value(value, array._getvalue(), k)
        place = cgutils.alloca_once(builder, value.type)
        builder.store(value, place)
        return place

    return Reference(fields)(fields), codegen
