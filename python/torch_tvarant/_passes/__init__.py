"""Graph passes of the compiler.

``tracer`` makes FX graphs of modules, ``gemm_epilogue`` and ``pointwise`` rewrite
them, ``program`` builds and checks pointwise programs, ``opcodes`` numbers their
ops. To add an element-wise op to the fusion: one row in ``pointwise._OPS``.
"""
