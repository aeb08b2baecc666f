"""NamedTuples of arrays passed by reference.

Numba passes a NamedTuple by value: the 120 arrays of the sparse engine are a thousand words on the
stack of each call, which takes most of a minute to compile (numba #5953). Also, each read of a
field changes the reference count of an array atomically, so that threads contend for the counter.
A reference is one pointer to a copy of the tuple without reference counts. It is valid within the
function that created it, and the caller must keep the arrays alive. A nested tuple is also read as
a reference, a pointer into the same copy.
"""

from hashlib import sha256

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, register_model
from numba.np.arrayobj import make_array


class Reference(types.Type):
    """Type of a pointer to a NamedTuple, with the fields of the tuple."""

    def __init__(self, target):
        self.target = target
        # The names of argument types are part of LLVM symbols, which would have thousands of
        # characters without the digest.
        digest = sha256(str(target).encode()).hexdigest()[:16]
        super().__init__(name=f"Reference({target.instance_class.__name__}, {digest})")

    def field(self, name):
        """Return the type of a field."""
        kind = self.target.types[self.target.fields.index(name)]
        return Reference(kind) if isinstance(kind, types.NamedTuple) else kind


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        target = dmm.lookup(fe_type.target).get_value_type()
        super().__init__(dmm, fe_type, target.as_pointer())


@infer_getattr
class _ReferenceAttributes(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference, name):
        return reference.field(name) if name in reference.target.fields else None


@lower_getattr_generic(Reference)
def _read_field(context, builder, kind, value, name):
    pointer = cgutils.gep_inbounds(builder, value, 0, kind.target.fields.index(name))
    return pointer if isinstance(kind.field(name), Reference) else builder.load(pointer)


def _store(context, builder, kind, value, pointer):
    """Store the fields of a tuple, arrays without a reference count."""
    for k, part in enumerate(kind.types):
        item, target = builder.extract_value(value, k), cgutils.gep_inbounds(builder, pointer, 0, k)
        if isinstance(part, types.NamedTuple):
            _store(context, builder, part, item, target)
            continue
        if isinstance(part, types.Array):
            array = make_array(part)(context, builder, item)
            array.meminfo = ir.Constant(array.meminfo.type, None)
            item = array._getvalue()
        builder.store(item, target)


@intrinsic
def referenced(typingctx, fields):
    """Return a reference to a NamedTuple, whose arrays are not reference-counted."""

    def codegen(context, builder, signature, args):
        pointer = cgutils.alloca_once(builder, args[0].type)
        _store(context, builder, signature.args[0], args[0], pointer)
        return pointer

    return Reference(fields)(fields), codegen
